FROM python:3.11-slim
COPY constraints.txt /
RUN pip install --no-cache-dir -c /constraints.txt prefect && useradd --create-home rlver && mkdir /prefect && chown rlver /prefect
ENV PREFECT_HOME=/prefect
USER rlver
