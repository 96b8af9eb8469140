"""Publishing a built site: uploaded to an index, copied to a folder or a store; and the record of what was."""
