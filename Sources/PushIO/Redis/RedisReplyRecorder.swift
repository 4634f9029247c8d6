import CHiredis
import PushCore

/// Records the values of one reply as hiredis' reader finds them: flat, depth first, in buffers that keep their capacity.
///
/// The callbacks give the reader a constant instead of objects, so there is nothing to free, and in the steady state nothing is allocated.
final class RedisReplyRecorder {
  private(set) var values: [RedisValue] = []
  private(set) var bytes: [UInt8] = []
  /// The reply exceeded a limit: the reader got no memory, and cannot be used any more.
  private(set) var isOverBound = false
  private let limits: RedisReader.Limits

  init(limits: RedisReader.Limits) {
    self.limits = limits
    values.reserveCapacity(16)
    bytes.reserveCapacity(1024)
  }

  func reset() {
    values.removeAll(keepingCapacity: true)
    bytes.removeAll(keepingCapacity: true)
  }

  func record(_ kind: RedisValue.Kind, integer: Int64 = 0) -> Bool {
    guard values.count < limits.valuesMaximum, kind != .array || integer <= Int64(limits.valuesMaximum) else {
      isOverBound = true
      return false
    }
    values.append(RedisValue(kind: kind, integer: integer))
    return true
  }

  func record(_ kind: RedisValue.Kind, text: UnsafeRawBufferPointer) -> Bool {
    guard values.count < limits.valuesMaximum, text.count <= limits.bytesMaximum - bytes.count else {
      isOverBound = true
      return false
    }
    let start = bytes.count
    unsafe bytes.append(contentsOf: text)
    values.append(RedisValue(kind: kind, text: ByteRange(start: start, count: text.count)))
    return true
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
      let isRecorded = unsafe recorder.record(kind, text: UnsafeRawBufferPointer(start: text, count: count))
      return unsafe RedisReplyRecorder.object(isRecorded)
    }
    unsafe functions.createArray = { task, count in
      guard let recorder = unsafe RedisReplyRecorder.recorder(task) else { return nil }
      return unsafe RedisReplyRecorder.object(recorder.record(.array, integer: Int64(count)))
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
    return functions
  }
}
