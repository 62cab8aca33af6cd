#!/usr/bin/env python3
"""Runs moto's S3 storage on loopback for the tests, until its standard input ends.

Prints a line in JSON with the port, a bucket and the keys of a user when it accepts requests. It
checks signatures and permissions as Amazon does.
"""

import json
import logging
import os
import sys

# The requests below are accepted before there is a user: as many as this.
PREPARATION = 4
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(PREPARATION)

import boto3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

BUCKET = "sanguine-files"
# Everything except a bucket policy, and nothing in another bucket.
POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "s3:ListBucket",
                "s3:GetBucketVersioning",
                "s3:GetObject",
                "s3:PutObject",
                "s3:DeleteObject",
            ],
            "Resource": "*",
        }
    ],
}


def main():
    logging.disable(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    place = {
        "endpoint_url": f"http://{host}:{port}",
        "region_name": "us-east-1",
        "aws_access_key_id": "none",
        "aws_secret_access_key": "none",
    }
    boto3.client("s3", **place).create_bucket(Bucket=BUCKET)
    iam = boto3.client("iam", **place)
    iam.create_user(UserName="sanguine")
    iam.put_user_policy(
        UserName="sanguine", PolicyName="files", PolicyDocument=json.dumps(POLICY)
    )
    key = iam.create_access_key(UserName="sanguine")["AccessKey"]
    print(
        json.dumps(
            {
                "port": port,
                "bucket": BUCKET,
                "accessKey": key["AccessKeyId"],
                "secretKey": key["SecretAccessKey"],
            }
        ),
        flush=True,
    )
    sys.stdin.read()
    server.stop()


main()
