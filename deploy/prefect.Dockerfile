FROM python:3.11-slim
RUN pip install --no-cache-dir prefect==3.8.8 && useradd --create-home rlver
USER rlver
