"""A session of Spark in client mode: Python on executors, a shuffle, and where it all ran."""

import socket

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("session").getOrCreate()
context = spark.sparkContext
squares = context.parallelize(range(100), 4).map(lambda number: number * number).sum()
assert squares == 328350, squares
print("ok Python runs on executors")
groups = spark.range(1000).repartition(4).selectExpr("id % 7 as remainder").groupBy("remainder").count().collect()
assert sorted(row["count"] for row in groups) == [142, 143, 143, 143, 143, 143, 143], groups
print("ok executors shuffle")
hosts = set(context.parallelize(range(8), 8).map(lambda _: socket.gethostname()).collect())
assert hosts, hosts
assert all("-exec-" in host for host in hosts), hosts
print("ok every task ran in an executor's pod")
spark.stop()
