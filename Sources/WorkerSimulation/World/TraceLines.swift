import PushCore

extension SimulatedRabbitMQEvent {
  /// A line of the trace.
  var line: String {
    func name(_ message: RabbitMessage) -> String {
      let body = String(decoding: message.body, as: UTF8.self)
      let id = body.firstRange(of: "00000000-0000-4000-8000-").map {
        body[$0.upperBound...].prefix(12).drop { $0 == "0" }
      }
      let device = WorkerAuditor.text("device", in: message.body).map { ", \($0)" } ?? ""
      let mark = WorkerAuditor.says(#""ambiguous":true"#, in: message.body) ? ", ambiguous" : ""
      return "message \(message.number), job \(id ?? "?")\(device)\(mark)"
    }
    switch self {
    case .stored(let queue, let message):
      let outcome = queue.hasSuffix(".results.log") ? WorkerAuditor.text("outcome", in: message.body) : nil
      let token = outcome == nil ? nil : WorkerAuditor.text("token", in: message.body)
      return "broker stored in \(queue): \(name(message))"
        + (outcome.map { ", \($0)" } ?? "") + (token.map { " for …\($0.suffix(4))" } ?? "")
    case .confirmed(let connection, let channel, let number, let message):
      return "broker confirmed \(connection)/\(channel) \(number): \(name(message))"
    case .refused(let connection, let channel, let number, let message):
      return "broker refused \(connection)/\(channel) \(number): \(name(message))"
    case .returned(let connection, let channel, let message):
      return "broker returned \(connection)/\(channel): \(name(message))"
    case .delivered(let queue, let message, let delivery):
      return "broker gave from \(queue): \(name(message)) \(delivery)"
    case .acknowledged(let queue, let message): return "worker acknowledged from \(queue): \(name(message))"
    case .rejected(let queue, let message): return "worker rejected from \(queue): \(name(message))"
    case .requeued(let queue, let message, let count): return "broker took back to \(queue): \(name(message)), \(count)"
    case .died(let queue, let message, let reason, let isGone):
      return "died in \(queue) (\(reason)\(isGone ? ", gone" : "")): \(name(message))"
    case .deadLettered(let queue, let message, let copy, let to):
      return "broker handed on from \(queue) to \(to): \(name(message)) as \(copy.number)"
    case .lost(let queue, let message): return "broker lost from \(queue): \(name(message))"
    case .purged(let queue, let count): return "broker purged \(queue): \(count)"
    }
  }
}

extension SimulatedRedisObservation {
  /// A line of the trace; nil: nothing of interest.
  var line: String? {
    guard case .script(let call, let script) = self else { return isViolation ? "redis \(self)" : nil }
    // Of an admission: the device, the job, the claim, and the information about earlier claims.
    let asks = zip(call.keys, call.arguments).map { key, argument in
      "\(String(decoding: key.suffix(9), as: UTF8.self)) "
        + (script.isAdmission ? Hex.text(argument) : String(decoding: argument.prefix(40), as: UTF8.self))
    }
    return "redis ran \(script.line) for \(call.connection): \(asks.joined(separator: ", ")) → \(call.reply)"
  }
}
