"""Checks JSON Schemas against examples, one a line; `scripts/check-schemas` starts it.

    schemas/<name>.schema.json                                themselves valid by JSON Schema 2020-12
    schemas/examples/<name>.valid.jsonl                       every line passes
    schemas/examples/<name>.invalid.jsonl                     every line, {"why": …, "instance": …}, fails
    demo/jobs.jsonl                                           every line passes that the demo does not mean to be wrong
    examples/*.jsonl                                          every line passes
    schemas/asyncapi.yaml                                     AsyncAPI 3: parts that must be there, every $ref leads somewhere
"""

import json
import pathlib
import re
import sys

import jsonschema
import yaml


def lines(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            yield number, line


def first_error(validator, instance):
    """The most helpful error, in one line; None if the instance is valid."""
    error = jsonschema.exceptions.best_match(validator.iter_errors(instance))
    return None if error is None else f"{error.json_path}: {error.message}"


def resolve(reference, document, folder):
    """The target of a $ref; raises KeyError or OSError if there is none."""
    file, _, pointer = reference.partition("#")
    if file:
        text = (folder / file).read_text(encoding="utf-8")
        document = json.loads(text) if file.endswith(".json") else yaml.safe_load(text)
    for part in pointer.split("/")[1:]:
        document = document[part.replace("~1", "/").replace("~0", "~")]
    return document


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def asyncapi_faults(path):
    """Errors of the AsyncAPI document, except its names, which the Swift tests compare."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key in ("asyncapi", "info", "channels", "operations", "components"):
        if key not in document:
            yield f"{key} is missing"
            return
    if document["asyncapi"] != "3.0.0":
        yield f"asyncapi is {document['asyncapi']}, not 3.0.0"
    for reference in references(document):
        try:
            resolve(reference, document, path.parent)
        except (KeyError, TypeError, OSError) as error:
            yield f"$ref {reference} leads nowhere: {error!r}"
    for name, channel in document["channels"].items():
        binding = channel.get("bindings", {}).get("amqp", {})
        kind = binding.get("is")
        if kind not in ("queue", "routingKey") or not binding.get("queue" if kind == "queue" else "exchange", {}).get("name"):
            yield f"channels.{name}.bindings.amqp names no exchange or queue"
        for part in re.findall(r"{(\w+)}", channel["address"]):
            if part not in channel.get("parameters", {}):
                yield f"channels.{name}: {{{part}}} of its address is no parameter"
        if not channel.get("messages"):
            yield f"channels.{name} has no message"
    for name, operation in document["operations"].items():
        if operation.get("action") not in ("send", "receive") or "$ref" not in operation.get("channel", {}):
            yield f"operations.{name} needs an action and a channel"


def main(config):
    failures = [f"asyncapi.yaml: {fault}" for fault in asyncapi_faults(config / "schemas" / "asyncapi.yaml")]
    checked = 0
    for name in ("job", "outcome", "channel-request", "channel-reply", "segment-filter"):
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
            for path in sorted((config / "examples").glob("*.jsonl")):
                for number, line in lines(path):
                    checked += 1
                    error = first_error(validator, json.loads(line))
                    if error:
                        failures.append(f"examples/{path.name}:{number}: {error}")
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
