-- Run once by Postgres on an empty volume; the database of Prefect is made by POSTGRES_DB.
CREATE DATABASE mlflow;
