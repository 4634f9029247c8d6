import PushCore

/// A request to the Live Activities API, as each of its calls, from whoever reaches the gateway.
final class LiveActivitiesAPISubject: FuzzSubject {
  private static let now: Int64 = 1_796_000_000_500
  private let api: LiveActivitiesAPI
  private var random = SeededRandom(seed: 1)

  init() throws(FuzzFinding) {
    guard let scope = AppScope(app: "com.example.app", environment: .production) else {
      throw FuzzFinding("the app's name is right")
    }
    let application = LiveActivitiesApplication(
      scope: scope, idAttribute: ActivityIDAttribute("ids.activity"),
      defaultAlert: LiveActivitiesApplication.Alert(title: "Ride", body: "On its way"))
    api = LiveActivitiesAPI(applications: ["XXXXX-XXXXX": application], allowsEveryone: true)
  }

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    for method in LiveActivitiesMethod.allCases {
      let reading = api.read(
        method: method.rawValue, body: bytes, authorization: "Token key", now: LiveActivitiesAPISubject.now,
        random: &random)
      switch reading.decision {
      case .answer(let answer):
        try check(answer)
        try holds(answer.body.count <= 4096, "a refusal is bounded: \(answer.body.count) bytes")
      case .plan(let plan):
        for publication in plan.publications { try check(publication) }
        try check(plan.answer(isConfirmed: true, unknown: plan.devices + plan.users))
      }
    }
  }

  private func check(_ answer: LiveActivitiesAnswer) throws(FuzzFinding) {
    var scanner = JSONScanner()
    let isJSON: Bool
    do throws(JSONError) {
      try scanner.skipValue(answer.body.span)
      try scanner.end(answer.body.span)
      isJSON = true
    } catch {
      isJSON = false
    }
    try holds(isJSON, "an answer is JSON: \(String(decoding: answer.body, as: UTF8.self))")
  }

  private func check(_ publication: LiveActivitiesPlan.Publication) throws(FuzzFinding) {
    switch publication {
    case .job(_, _, let bytes):
      var parser = JobParser()
      var job = PushJob()
      job.bytes = bytes
      job.bodyCount = bytes.count
      let noID: [UInt8] = []
      do throws(JobError) {
        try parser.parse(into: &job, fallbackID: noID.span)
      } catch {
        throw FuzzFinding("the worker refuses a job: \(error.detail)")
      }
    case .registration(let bytes):
      do throws(JobError) {
        _ = try RegistrationParser.parse(bytes, now: LiveActivitiesAPISubject.now)
      } catch {
        throw FuzzFinding("the worker refuses a registration: \(error.detail)")
      }
    }
  }
}
