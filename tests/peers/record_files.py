"""record_files.py - TFRecord files written by real TensorFlow, and its reading
of files of ours.

Run by hand: python tests/peers/record_files.py
writes tests/golden/records/{plain,zlib,gzip}.tfrecord, of 40 records: record i
is the byte 'a' + i % 26, i * i times. With a path and a compression
("", ZLIB, GZIP) it reads that file instead, and says whether it holds these.
"""
import os
import sys

import tensorflow as tf

RECORDS = [bytes([97 + i % 26]) * (i * i) for i in range(40)]
FOLDER = os.path.join(os.path.dirname(__file__), "..", "golden", "records")


def write():
    os.makedirs(FOLDER, exist_ok=True)
    for name, compression in ("plain", ""), ("zlib", "ZLIB"), ("gzip", "GZIP"):
        path = os.path.join(FOLDER, name + ".tfrecord")
        with tf.io.TFRecordWriter(path, compression) as w:
            for r in RECORDS:
                w.write(r)


def read(path, compression):
    data = tf.data.TFRecordDataset(path, compression)
    same = [r.numpy() for r in data] == RECORDS
    print(path, "holds the records" if same else "holds others")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(read(*sys.argv[1:3]) if len(sys.argv) > 2 else write())
