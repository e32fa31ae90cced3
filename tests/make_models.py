"""Makes the random tiny models that the other tests share (a ctest fixture)."""

from common import fixtures

if __name__ == "__main__":
    for model_type in ("llama", "deepseek_v3"):
        print(len(fixtures(model_type)), model_type)
