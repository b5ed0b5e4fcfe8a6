FROM python:3.11-slim
RUN pip install --no-cache-dir mlflow==3.17.2 psycopg2-binary==2.9.10 && useradd --create-home rlver && mkdir /mlartifacts && chown rlver /mlartifacts
USER rlver
