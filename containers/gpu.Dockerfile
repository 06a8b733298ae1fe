# vLLM, and the worker of the PyTorch trainer in an environment of its own: each has the torch that it was tested with.
# Build from the root of the repository:
#   docker compose --env-file containers/versions.env -f containers/compose.yaml build server
ARG VLLM_VERSION
FROM vllm/vllm-openai:v${VLLM_VERSION}
ARG TORCH_VERSION
ARG TRANSFORMERS_VERSION
ARG SAFETENSORS_VERSION
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN python3 -m venv /opt/rollcall-torch \
  && /opt/rollcall-torch/bin/pip install --no-cache-dir "torch==${TORCH_VERSION}" "transformers==${TRANSFORMERS_VERSION}" \
    "safetensors==${SAFETENSORS_VERSION}" "numpy>=1.26,<3"
COPY python/rollcall_torch /opt/rollcall/rollcall_torch
COPY containers/is-listening.py /opt/rollcall/is-listening.py
# Also for vLLM, whose workers load rollcall_torch.vllm_extension.
ENV PYTHONPATH=/opt/rollcall
# Volumes take the owner of the folder that they cover.
RUN install --directory --owner=1000 --group=1000 /work /weights /home/rollcall /home/rollcall/.cache \
  /home/rollcall/.cache/huggingface
ENV HOME=/home/rollcall
USER 1000:1000
WORKDIR /work
# What listens is said by the command: 8000 is vLLM's port, 29600 the trainer's.
ENV ROLLCALL_PORT=8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=15m CMD ["python3", "/opt/rollcall/is-listening.py"]
ENTRYPOINT []
CMD ["vllm", "--help"]
