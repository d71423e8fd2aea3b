"""tf.data: TFRecords in shards with interleave, lines of text, and what is written again."""

import os

import tensorflow as tf

from trainers.flags import parsed

SHARDS = 4
RECORDS = 250
#: A record's size; full-length runs have shards of 50 MB.
RECORD_BYTES = int(os.environ.get("RECORD_BYTES", "1000"))


def write(folder):
    payload = os.urandom(RECORD_BYTES)
    for shard in range(SHARDS):
        with tf.io.TFRecordWriter(f"{folder}/train-{shard:05}-of-{SHARDS:05}.tfrecord") as writer:
            for n in range(RECORDS):
                feature = {
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[n])),
                    "data": tf.train.Feature(bytes_list=tf.train.BytesList(value=[payload])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())


def parse(record):
    spec = {
        "label": tf.io.FixedLenFeature([], tf.int64),
        "data": tf.io.FixedLenFeature([], tf.string),
    }
    features = tf.io.parse_single_example(record, spec)
    return features["label"], tf.strings.length(features["data"])


def main():
    args = parsed()
    write(f"{args.output}/records")
    files = tf.data.Dataset.list_files(f"{args.output}/records/train-*", seed=1)
    records = files.interleave(
        tf.data.TFRecordDataset, cycle_length=SHARDS, num_parallel_calls=tf.data.AUTOTUNE
    )
    labels = lengths = count = 0
    for label, length in records.map(parse).shuffle(100).batch(50).prefetch(1):
        labels += int(tf.reduce_sum(label))
        lengths += int(tf.reduce_sum(length))
        count += len(label)
    assert count == SHARDS * RECORDS, count
    assert labels == SHARDS * sum(range(RECORDS))
    assert lengths == count * RECORD_BYTES

    lines = tf.data.TextLineDataset(f"{args.data}/iris.csv").skip(1)
    assert sum(1 for _ in lines) == 150
    columns = tf.data.experimental.make_csv_dataset(
        f"{args.data}/iris.csv", batch_size=50, label_name="species", num_epochs=1
    )
    assert sum(len(label) for _, label in columns) == 150


if __name__ == "__main__":
    main()
