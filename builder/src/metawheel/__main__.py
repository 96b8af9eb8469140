from metawheel.cli import main

main()
