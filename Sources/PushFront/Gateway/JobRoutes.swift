import PushCore
import PushIO
import PushOperations
import PushStores

/// `/v1/jobs`: sends jobs, shows their state, and pauses, resumes and cancels them.
enum JobRoutes {
  /// - Returns: 202 only for jobs that RabbitMQ confirmed.
  static func post(_ call: GatewayCall) async throws -> GatewayReply {
    let format = try call.format()
    let jobClass = try call.jobClass()
    let idempotency = try call.idempotencyKey()
    let body = try await call.body()
    let bytes = body.bytes
    let answer: @Sendable (IdempotencyKey?) async throws(Problem) -> GatewayReply = { key async throws(Problem) in
      switch format {
      case .json: try await one(bytes, jobClass, call, key)
      case .lines: try await lines(bytes, jobClass, call, key)
      }
    }
    guard let idempotency else { return try await answer(nil) }
    let head = Array("\(format) \(call.request.query ?? "")\n".utf8)
    let fingerprint = try await call.work(on: bytes.count) { Hex.text(SHA256Digest.of((head + bytes).span)) }
    return try await IdempotentRequest(key: idempotency, route: "jobs", fingerprint: fingerprint, call: call)
      .answer { () async throws(Problem) in try await answer(idempotency) }
  }

  private static func one(
    _ bytes: [UInt8], _ jobClass: JobClass, _ call: GatewayCall, _ key: IdempotencyKey?
  ) async throws(Problem) -> GatewayReply {
    let isLarge = bytes.count > GatewayLimits.smallWorkBytesMaximum
    let sender = call.sender
    let job = try await call.work(on: bytes.count) { () throws(Problem) in
      try call.services.take(bytes, from: sender, isLarge: isLarge) { newID(call, key, 0) }
    }
    try await call.services.publish(
      GatewayMessage(
        .job(jobClass, id: job.id, scope: job.scope, call.trace), job.body, needsSequence: job.needsSequence),
      of: call.key)
    return GatewayReply(
      202, Array("{\"id\":\(GatewayReply.quoted(job.id))}".utf8), location: location(job.id))
  }

  private static func lines(
    _ bytes: [UInt8], _ jobClass: JobClass, _ call: GatewayCall, _ key: IdempotencyKey?
  ) async throws(Problem) -> GatewayReply {
    let taken = try await call.work(on: bytes.count) { () throws(Problem) in
      try take(bytes, jobClass, call, key)
    }
    let results = await call.services.backend.publish(taken.messages, of: call.key)
    return try await call.work(on: bytes.count) { reply(taken.lines, results) }
  }

  /// The messages of a body of JSON Lines; and for each of its lines, its job's id, or why it is refused.
  private typealias Lines = (lines: [Result<String, Problem>], messages: [GatewayMessage])

  private static func take(
    _ bytes: [UInt8], _ jobClass: JobClass, _ call: GatewayCall, _ key: IdempotencyKey?
  ) throws(Problem) -> Lines {
    let trace = call.trace
    let sender = call.sender
    let isLarge = bytes.count > GatewayLimits.smallWorkBytesMaximum
    var taken: Lines = ([], [])
    for (index, line) in JSONLines(bytes).enumerated() {
      guard index < GatewayLimits.linesMaximum else {
        throw Problem(Problem.Fault(pointer: "", rule: "must have at most \(GatewayLimits.linesMaximum) lines"))
      }
      do throws(Problem) {
        let job = try call.services.take(line, from: sender, isLarge: isLarge) { newID(call, key, index) }
        taken.messages.append(
          GatewayMessage(
            .job(jobClass, id: job.id, scope: job.scope, trace), job.body, needsSequence: job.needsSequence))
        taken.lines.append(.success(job.id))
      } catch {
        taken.lines.append(.failure(error))
      }
    }
    guard !taken.lines.isEmpty else {
      throw Problem(Problem.Fault(pointer: "", rule: "must have at least one line, with one job a line"))
    }
    return taken
  }

  /// - Parameter results: of the jobs that were published.
  private static func reply(_ lines: [Result<String, Problem>], _ results: [PublishResult]) -> GatewayReply {
    var results = results.makeIterator()
    var text: [UInt8] = []
    var statuses: Set<Int> = []
    func add(_ problem: Problem, _ index: Int) {
      statuses.insert(problem.kind.status)
      text.append(contentsOf: problem.line(index))
    }
    for (index, line) in lines.enumerated() {
      switch line {
      case .success(let id):
        if let problem = results.next().flatMap(GatewayServices.problem) {
          add(problem, index)
        } else {
          statuses.insert(202)
          text.append(text: "{\"index\":\(index),\"status\":202,\"id\":")
          text.append(jsonString: id)
          text.append(text: "}\n")
        }
      case .failure(let problem): add(problem, index)
      }
    }
    let status = statuses.contains(202) ? 202 : statuses.contains(503) ? 503 : 400
    var reply = GatewayReply(status, text, contentType: GatewayReply.lines)
    reply.hasUnconfirmedJobs = statuses.contains(503)
    return reply
  }

  /// The id of a job that has none. With an idempotency key, a repeated request gives the same ids, so that workers deduplicate its jobs.
  private static func newID(_ call: GatewayCall, _ key: IdempotencyKey?, _ index: Int) -> UUIDValue {
    guard let key else {
      var random = SystemRandomNumberGenerator()
      return UUIDValue.version4(&random)
    }
    return UUIDValue.version5(
      namespace: .heraldNamespace, name: "gateway/\(call.key.id)/\(key.text)/\(index)".utf8.span)
  }

  private static func location(_ id: String) -> String { "/v1/jobs/" + PercentEncoding.encode(id) }

  static func get(_ id: String, _ call: GatewayCall) async throws(Problem) -> GatewayReply {
    let scope = try call.scope()
    switch try await call.services.ask({ backend, then in backend.job(id, in: scope, then: then) }) {
    case .unknown: throw unknown
    case .queued: return GatewayReply(200, "{\"id\":\(GatewayReply.quoted(id)),\"state\":\"queued\"}")
    case .audience(let progress): return GatewayReply(200, json(id, progress))
    }
  }

  static func control(_ command: ExpansionState.Command, _ id: String, _ call: GatewayCall) async throws(Problem)
    -> GatewayReply
  {
    let scope = try call.scope()
    let answer = try await call.services.ask { backend, then in backend.control(command, id, in: scope, then: then) }
    guard let answer else {
      throw Problem(
        .notFound, "no worker has started a job with this id for devices, users or a segment within 24 hours")
    }
    guard answer.isTaken else {
      throw Problem(.conflict, "the job is \(answer.before.rawValue): nothing is left to \(command.rawValue)")
    }
    return try await get(id, call)
  }

  private static let unknown = Problem(.notFound, "no job with this id was accepted within 24 hours")

  private static func json(_ id: String, _ progress: ExpansionProgress) -> [UInt8] {
    var bytes: [UInt8] = []
    // A cancelled job ends as completed once its published pages have ended.
    let state = progress.phase == .cancelled ? ExpansionState.Phase.running : progress.phase
    bytes.append(text: "{\"id\":")
    bytes.append(jsonString: id)
    bytes.append(text: ",\"state\":\"\(state.rawValue)\",\"cancelled\":\(progress.isCancelled),\"summary\":")
    bytes.append(addingCapacity: 1_000) { progress.summary.append(to: &$0) }
    bytes.append(text: "}")
    return bytes
  }
}
