"""One query of the experiment, as Spark's driver runs it: a star join over Parquet, in the manner of TPC-DS.

    query.py FOLDER NUMBER

Prints ``result NUMBER ROWS SUM``, which depends on the data alone.
"""

import sys

from pyspark.sql import SparkSession

STATEMENTS = (
    """SELECT d.year, i.brand, SUM(s.price * s.quantity) AS revenue
       FROM sales s JOIN item i ON s.item = i.item JOIN day d ON s.day = d.day
       WHERE i.maker < 40 AND d.month = 11 GROUP BY d.year, i.brand ORDER BY revenue DESC, i.brand LIMIT 100""",
    """SELECT c.state, i.category, COUNT(DISTINCT s.customer) AS revenue
       FROM sales s JOIN customer c ON s.customer = c.customer JOIN item i ON s.item = i.item
       GROUP BY c.state, i.category ORDER BY c.state, i.category""",
    """SELECT category, month, revenue FROM
         (SELECT i.category, d.month, SUM(s.price) AS revenue,
                 RANK() OVER (PARTITION BY i.category ORDER BY SUM(s.price) DESC) AS place
          FROM sales s JOIN item i ON s.item = i.item JOIN day d ON s.day = d.day GROUP BY i.category, d.month)
       WHERE place <= 3 ORDER BY category, month""",
)


def main() -> None:
    """Run the statement, with all tables read from Parquet."""
    folder, number = sys.argv[1], int(sys.argv[2])
    spark = SparkSession.builder.appName(f"query-{number}").getOrCreate()
    for table in ("sales", "item", "day", "customer"):
        spark.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)
    rows = spark.sql(STATEMENTS[number % len(STATEMENTS)]).collect()
    print(f"result {number} {len(rows)} {sum(float(row.revenue) for row in rows):.2f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
