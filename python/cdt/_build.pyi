version: str
torch_version: str
python_version: str
