import CHiredis
import PushCore

/// Records the values of one reply as hiredis' reader finds them: flat, depth first, in buffers that keep their capacity.
///
/// The callbacks give the reader a constant instead of objects, so there is nothing to free, and in the steady state nothing is allocated.
final class RedisReplyRecorder {
  private(set) var values: [RedisValue] = []
  private(set) var bytes: [UInt8] = []
  /// Why the reader got no memory, and cannot be used any more; nil: it got all that it asked for.
  private(set) var refusal: String?
  private let limits: RedisReader.Limits
  /// Values that the reply still lacks.
  private var missing: Int64 = 1

  /// As many values were recorded as the reply's head and its arrays announce.
  var isWhole: Bool { missing == 0 }

  /// The containers around a value, at most: a reply is copied level by level.
  private static let depthMaximum: Int32 = 8

  init(limits: RedisReader.Limits) {
    self.limits = limits
    values.reserveCapacity(16)
    bytes.reserveCapacity(1024)
  }

  func reset() {
    values.removeAll(keepingCapacity: true)
    bytes.removeAll(keepingCapacity: true)
    missing = 1
  }

  func record(_ kind: RedisValue.Kind, integer: Int64 = 0) -> Bool {
    guard values.count < limits.valuesMaximum, kind != .array || 0...Int64(limits.valuesMaximum) ~= integer else {
      return refuse("a reply of more than \(limits.valuesMaximum) values or \(limits.bytesMaximum) bytes")
    }
    missing += kind == .array ? integer - 1 : -1
    values.append(RedisValue(kind: kind, integer: integer))
    return true
  }

  func record(_ kind: RedisValue.Kind, text: UnsafeRawBufferPointer) -> Bool {
    guard values.count < limits.valuesMaximum, text.count <= limits.bytesMaximum - bytes.count else {
      return refuse("a reply of more than \(limits.valuesMaximum) values or \(limits.bytesMaximum) bytes")
    }
    missing -= 1
    let start = bytes.count
    unsafe bytes.append(contentsOf: text)
    values.append(RedisValue(kind: kind, text: ByteRange(start: start, count: text.count)))
    return true
  }

  private func refuse(_ reason: String) -> Bool {
    refusal = reason
    return false
  }

  /// A list or a map begins.
  private func recordContainer(_ task: UnsafePointer<redisReadTask>, count: Int64) -> Bool {
    if unsafe herald_is_out_of_band(task) != 0 { return refuse("an attribute or a push, which answers no command") }
    guard unsafe herald_depth(task, RedisReplyRecorder.depthMaximum) < RedisReplyRecorder.depthMaximum else {
      return refuse("a reply of more than \(RedisReplyRecorder.depthMaximum) levels")
    }
    return record(.array, integer: count)
  }

  /// Stands for every recorded object; nil makes the reader stop with an error.
  private static func object(_ isRecorded: Bool) -> UnsafeMutableRawPointer? {
    isRecorded ? unsafe UnsafeMutableRawPointer(bitPattern: 1) : nil
  }

  private static func recorder(_ task: UnsafePointer<redisReadTask>?) -> RedisReplyRecorder? {
    guard let context = unsafe task?.pointee.privdata else { return nil }
    return unsafe Unmanaged<RedisReplyRecorder>.fromOpaque(context).takeUnretainedValue()
  }

  /// The callbacks of every reader.
  static func functions() -> redisReplyObjectFunctions {
    var functions = redisReplyObjectFunctions()
    unsafe functions.createString = { task, text, count in
      guard let task = unsafe task, let recorder = unsafe RedisReplyRecorder.recorder(task) else { return nil }
      let kind: RedisValue.Kind =
        switch unsafe task.pointee.type {
        case REDIS_REPLY_ERROR: .error
        case REDIS_REPLY_STATUS: .status
        default: .bulk
        }
      let bytes = unsafe UnsafeRawBufferPointer(start: text, count: count)
      let isVerbatim = unsafe herald_is_verbatim(task) != 0
      let isRecorded = unsafe recorder.record(
        kind, text: isVerbatim ? UnsafeRawBufferPointer(rebasing: bytes.dropFirst(4)) : bytes)
      return unsafe RedisReplyRecorder.object(isRecorded)
    }
    unsafe functions.createArray = { task, count in
      guard let task = unsafe task, let recorder = unsafe RedisReplyRecorder.recorder(task) else { return nil }
      return unsafe RedisReplyRecorder.object(recorder.recordContainer(task, count: Int64(clamping: count)))
    }
    unsafe functions.createInteger = { task, value in
      guard let recorder = unsafe RedisReplyRecorder.recorder(task) else { return nil }
      return unsafe RedisReplyRecorder.object(recorder.record(.integer, integer: Int64(value)))
    }
    unsafe functions.createNil = { task in
      guard let recorder = unsafe RedisReplyRecorder.recorder(task) else { return nil }
      return unsafe RedisReplyRecorder.object(recorder.record(.null))
    }
    unsafe functions.freeObject = { _ in }
    // As a server writes these in RESP2: a number as text, a flag as 1 or 0.
    unsafe herald_set_resp3_functions(
      &functions,
      { task, _, text, count in
        guard let recorder = unsafe RedisReplyRecorder.recorder(task) else { return nil }
        let isRecorded = unsafe recorder.record(.bulk, text: UnsafeRawBufferPointer(start: text, count: count))
        return unsafe RedisReplyRecorder.object(isRecorded)
      },
      { task, value in
        guard let recorder = unsafe RedisReplyRecorder.recorder(task) else { return nil }
        return unsafe RedisReplyRecorder.object(recorder.record(.integer, integer: value == 0 ? 0 : 1))
      })
    return functions
  }
}
