"""Print an object of the bucket named results."""

import sys

import boto3

keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
store = boto3.client("s3", endpoint_url=sys.argv[1], **keys)
print("ok", store.get_object(Bucket="results", Key=sys.argv[2])["Body"].read().decode(), end="")
