"""A folder of an S3-compatible store: objects by path, each with its sha256, failures as sentences.

boto3 finds credentials, region and profile as it always does; no message holds any of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from metawheel.errors import OutputError, PublishError
from metawheel.site import MANIFEST, Manifest

PARALLEL_REQUESTS = 8
FOREVER = "public, max-age=31536000, immutable"  # RFC 8246
SHORTLY = "public, max-age=60, must-revalidate"
SHA256 = "sha256"  # the key of the object metadata; an ETag is no digest where objects come in parts or encrypted

# The codes with which S3 and its like say no to whoever asks; a HEAD request gets only the number.
REFUSED = {
    "403",
    "AccessDenied",
    "AllAccessDisabled",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
}
ELSEWHERE = {"301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}

MEDIA_TYPES = {
    ".atom": "application/atom+xml",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Objects below a prefix of a bucket; safe to use from several threads. Everything raises PublishError."""

    url: str
    client: Any
    bucket: str
    prefix: str  # "" or with a slash at its end
    at: str  # the endpoint, for messages

    @classmethod
    def open(cls, url: str, endpoint_url: str | None = None) -> Store:
        """Make ready for `s3://bucket/prefix`; nothing is asked of the store yet."""
        found = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]+)(?:/(.*))?", url)
        if found is None:
            shown = re.sub(r"[^/]*@", "", url)  # not a password, should somebody put one here
            raise PublishError(f"{shown}: is not an address like s3://bucket/prefix")
        if "@" in urlsplit(endpoint_url or "").netloc:
            raise PublishError(f"{url}: the endpoint's address holds a name or password; set those for boto3 instead")
        try:
            from boto3.session import Session
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError:
            raise PublishError(f"{url}: needs boto3; install metawheel with its extra, s3") from None
        config = Config(
            max_pool_connections=PARALLEL_REQUESTS,
            connect_timeout=10,
            read_timeout=60,
            retries={"mode": "standard", "total_max_attempts": 4},
            # The signature covers the content's sha256, which every store checks; not all know the newer checksums.
            s3={"payload_signing_enabled": True},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        try:
            client = Session().client("s3", endpoint_url=endpoint_url, config=config)
        except (BotoCoreError, ValueError) as error:
            raise PublishError(f"{url}: boto3 cannot be set up: {error}") from None
        prefix = (found[2] or "").strip("/")
        at = endpoint_url or "the store"
        return cls(url=url, client=client, bucket=found[1], prefix=f"{prefix}/" if prefix else "", at=at)

    def paths(self) -> dict[str, int]:
        """Every object below the prefix, with its size in bytes."""
        with self._told():
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix)
            found = (item for page in pages for item in page.get("Contents", ()))
            return {item["Key"].removeprefix(self.prefix): item["Size"] for item in found}

    def read(self, path: str) -> bytes:
        with self._told():
            content: bytes = self.client.get_object(**self._key(path))["Body"].read()
        return content

    def manifest(self) -> Manifest:
        """The manifest of the site that is published there."""
        try:
            return Manifest.parse(self.read(MANIFEST), f"{self.url}/{MANIFEST}", "name another prefix")
        except OutputError as error:
            raise PublishError(str(error)) from None

    def sha256(self, path: str) -> str:
        """The sha256 of an object: what was noted with it, else computed by reading it."""
        with self._told():
            noted: str | None = self.client.head_object(**self._key(path))["Metadata"].get(SHA256)
        return noted or hashlib.sha256(self.read(path)).hexdigest()

    def put(self, path: str, content: bytes) -> None:
        with self._told():
            self.client.put_object(
                **self._key(path),
                Body=content,
                ContentType=content_type(path),
                CacheControl=FOREVER if path.startswith("files/") else SHORTLY,
                Metadata={SHA256: hashlib.sha256(content).hexdigest()},
            )

    def delete(self, path: str) -> None:
        with self._told():
            self.client.delete_object(**self._key(path))

    def _key(self, path: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.prefix + path}

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell boto3's failures as ours; the store's own words are left out, they may hold a key."""
        from botocore import exceptions as aws

        try:
            yield
        except aws.ClientError as error:
            raise PublishError(f"{self.url}: {self._answer(error.response, error.operation_name)}") from None
        except aws.NoCredentialsError:
            raise PublishError(
                f"{self.url}: there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            ) from None
        except (aws.ConnectionError, aws.HTTPClientError) as error:
            kind = type(error).__name__
            raise PublishError(
                f"{self.url}: {self.at} did not answer ({kind}); publish again to go on when it does"
            ) from None
        except aws.BotoCoreError as error:
            raise PublishError(f"{self.url}: boto3 cannot go on ({type(error).__name__})") from None

    def _answer(self, response: Any, operation: str) -> str:
        code = re.sub(r"\W", "", str(response.get("Error", {}).get("Code", "")))
        if code == "NoSuchBucket":
            return f"there is no bucket {self.bucket}; create it, or name another"
        if code in REFUSED:
            needed = "list the bucket, and get, put and delete its objects"
            return f"{operation} was refused ({code}); the credentials that boto3 finds must be allowed to {needed}"
        if code in ELSEWHERE:
            return f"the bucket is in another region ({code}); set AWS_DEFAULT_REGION to it"
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return f"{operation} was answered {status} ({code}); publish again to go on"


def content_type(path: str) -> str:
    """The media type of a site's file; the JSON form of the simple API has its own (PEP 691)."""
    if path.endswith("/"):
        return MEDIA_TYPES[".html"]
    if path.endswith("/index.json") and "simple" in path.split("/"):
        return "application/vnd.pypi.simple.v1+json"
    return MEDIA_TYPES.get(PurePosixPath(path).suffix, "application/octet-stream")
