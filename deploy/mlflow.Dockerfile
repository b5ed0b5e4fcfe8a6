FROM python:3.11-slim
COPY constraints.txt /
RUN pip install --no-cache-dir -c /constraints.txt mlflow psycopg2-binary==2.9.10 && useradd --create-home rlver && mkdir /mlartifacts && chown rlver /mlartifacts
USER rlver
