"""Checks JSON Schemas against examples, one a line; `scripts/check-schemas` starts it.

    schemas/job.schema.json, schemas/outcome.schema.json      themselves valid by JSON Schema 2020-12
    schemas/examples/<name>.valid.jsonl                       every line passes
    schemas/examples/<name>.invalid.jsonl                     every line, {"why": …, "instance": …}, fails
    demo/jobs.jsonl                                           every line passes that the demo does not mean to be wrong
"""

import json
import pathlib
import sys

import jsonschema


def lines(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            yield number, line


def first_error(validator, instance):
    """The error that explains most, in one line; None where the instance is valid."""
    error = jsonschema.exceptions.best_match(validator.iter_errors(instance))
    return None if error is None else f"{error.json_path}: {error.message}"


def main(config):
    failures = []
    checked = 0
    for name in ("job", "outcome"):
        schema = json.loads((config / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        examples = config / "schemas" / "examples"

        valid = [(examples / f"{name}.valid.jsonl", number, json.loads(line))
                 for number, line in lines(examples / f"{name}.valid.jsonl")]
        for path, number, instance in valid:
            checked += 1
            error = first_error(validator, instance)
            if error:
                failures.append(f"{path.name}:{number}: should be valid, but {error}")

        for number, line in lines(examples / f"{name}.invalid.jsonl"):
            checked += 1
            example = json.loads(line)
            if validator.is_valid(example["instance"]):
                failures.append(f"{name}.invalid.jsonl:{number}: should be invalid: {example['why']}")

        if name == "job":
            for number, line in lines(config / "demo" / "jobs.jsonl"):
                checked += 1
                try:
                    instance = json.loads(line)
                except json.JSONDecodeError:
                    instance = None
                means_to_be_wrong = instance is None or str(instance.get("id", "")).startswith("invalid-")
                if validator.is_valid(instance) == means_to_be_wrong:
                    failures.append(f"demo/jobs.jsonl:{number}: {first_error(validator, instance) or 'is valid'}")

    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{checked} examples of schemas checked, {len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
