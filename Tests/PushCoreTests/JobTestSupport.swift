/// Jobs for tests: written as text, parsed, inspected.
import PushCore

/// A token of 64 digits.
let someToken = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
let someID = "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11"

/// The contract's example.
let exampleJob = """
  {"version": 1, "id": "\(someID)", "app": "com.example.app", "push_type": "alert",
   "environment": "production", "to": {"token": "\(someToken)"}, "priority": 10, "expiration": 1796083200,
   "collapse_id": "order-123", "token_registered_at": 1795996800000, "payload": {"aps": {"alert": {"title": "Shipped"}}},
   "meta": {"campaign": "42"}}
  """

/// A valid job with some fields replaced: `nil` leaves a key out.
func job(_ changes: [(String, String?)] = []) -> String {
  var fields: [(String, String?)] = [
    ("version", "1"), ("id", "\"\(someID)\""), ("app", "\"com.example.app\""), ("push_type", "\"alert\""),
    ("to", "{\"token\": \"\(someToken)\"}"), ("payload", "{\"aps\": {\"alert\": \"Hello\"}}"),
  ]
  for (key, value) in changes {
    if let index = fields.firstIndex(where: { $0.0 == key }) {
      fields[index].1 = value
    } else {
      fields.append((key, value))
    }
  }
  return "{" + fields.compactMap { key, value in value.map { "\"\(key)\": \($0)" } }.joined(separator: ", ") + "}"
}

/// A job of a push type with a payload.
func job(_ pushType: String, payload: String, _ changes: [(String, String?)] = []) -> String {
  job([("push_type", "\"\(pushType)\""), ("payload", payload)] + changes)
}

/// A parsed job, and why it is invalid. An object, because a job cannot be copied.
final class Parsed {
  var job: PushJob
  var error: JobError?

  convenience init(_ text: String, messageID: String = "") {
    self.init(bytes: Array(text.utf8), messageID: Array(messageID.utf8))
  }

  init(bytes: [UInt8], messageID: [UInt8] = []) {
    var parser = JobParser()
    job = PushJob()
    job.bytes = bytes
    job.bodyCount = bytes.count
    do throws(JobError) {
      try parser.parse(into: &job, fallbackID: messageID.span)
    } catch {
      self.error = error
    }
  }

  func text(_ range: ByteRange) -> String {
    String(decoding: job.bytes[range.range], as: UTF8.self)
  }

  var targets: [String] { job.targets.map(text) }
}

/// The outcome of a job, as text.
func outcomeText(_ record: OutcomeRecord, _ job: borrowing PushJob, target: Int?) -> String {
  var output: [UInt8] = []
  OutcomeWriter(worker: "host-1/0").append(
    record, of: job, target: target, apnsID: UUIDValue.apnsID(for: job, target: target), to: &output)
  return String(decoding: output, as: UTF8.self)
}

/// Whether the scanner accepts a text as one JSON value.
func scanError(_ bytes: [UInt8]) -> JSONError? {
  var scanner = JSONScanner()
  do throws(JSONError) {
    try scanner.skipValue(bytes.span)
    try scanner.end(bytes.span)
    return nil
  } catch {
    return error
  }
}

func scanError(_ text: String) -> JSONError? { scanError(Array(text.utf8)) }
