FROM python:3.11-slim
COPY constraints.txt /
RUN pip install --no-cache-dir -c /constraints.txt prefect && useradd --create-home rlver && mkdir /home/rlver/.prefect && chown rlver /home/rlver/.prefect
USER rlver
