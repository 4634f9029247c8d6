import PushCore

/// What an operator does in the simulated world, drawn before it starts.
struct SimulatedCommand: Sendable {
  enum Kind: Sendable {
    case cancel
    /// - Parameter milliseconds: after which it goes on, or is cancelled.
    case pauseFor(milliseconds: Int64, thenCancels: Bool)
    case reap, reconcile
  }

  let kind: Kind
  /// The number of the audience event with the job; nil: it is about channels.
  let event: Int?
  /// The world's nanoseconds.
  let at: Int64

  /// Commands about jobs, most of them of activities, some while the job is about to be taken up, some while its pages wait. And some about
  /// channels, just before and after a long activity ends.
  /// - Parameter aftermath: when that begins.
  static func plan(
    seed: UInt64, _ settings: WorkerWorld.Settings, _ audiences: [SimulatedAudienceEvent?], aftermath: Int64
  ) -> [SimulatedCommand] {
    var random = SeededRandom(seed: seed ^ 0x6F70_6572_6174_6F72)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    var jobs: [(event: Int, isOfActivity: Bool)] = []
    for (number, event) in audiences.enumerated() {
      if case .job(let job)? = event?.kind { jobs.append((number, job.push != nil)) }
    }
    let ofActivities = jobs.filter(\.isOfActivity)
    let ofChannels = (0..<settings.channelCommands).map { number in
      let at = aftermath + SimulatedAudienceEvent.longNanoseconds + Int64(pick(4_000) - 1_000) * 1_000_000
      return SimulatedCommand(kind: number % 3 == 1 ? .reconcile : .reap, event: nil, at: at)
    }
    guard !jobs.isEmpty else { return ofChannels }
    return ofChannels
      + (0..<settings.commands).map { _ in
        let chosen = !ofActivities.isEmpty && pick(4) > 0 ? ofActivities : jobs
        let event = chosen[pick(UInt64(chosen.count))].event
        let delay = pick([40, 600, 4_000, 40_000][pick(4)])
        let kind: Kind =
          pick(3) > 0 ? .cancel : .pauseFor(milliseconds: Int64(1_000 + pick(60_000)), thenCancels: pick(3) == 0)
        return SimulatedCommand(kind: kind, event: event, at: (audiences[event]?.at ?? 0) + Int64(delay) * 1_000_000)
      }
  }
}
