import PushCore
import PushSettings

/// What operators do beside the workers.
extension WorkerWorld {
  enum Operation {
    case begin(Int)
    /// A command about the job of that one, which was tried so often before.
    case order(ExpansionState.Command, Int, tries: Int)
  }

  /// A channel is deleted once it was unused for so long: the minimum that the command takes.
  static let unusedSeconds: Int64 = 600
  /// Until a command is repeated: about a job that no worker took up yet, and to a Redis that did not answer.
  private static let soonNanoseconds: Int64 = 20_000_000
  private static let laterNanoseconds: Int64 = 1_000_000_000
  private static let triesMaximum = 30

  func scheduleCommands(_ configuration: Configuration, _ key: SimulatedSigningKey) throws {
    // What Redis lost is stored again, as operators do.
    if settings.hasAftermath {
      schedule(.putSegments, at: plan.aftermath - SimulatedAudienceEvent.registersEarlierNanoseconds)
    }
    guard !plan.commands.isEmpty else { return }
    operators = try SimulatedOperator(network, configuration, key: key, seed: plan.seed ^ 0x636F_6D6D_616E_6473) {
      [unowned self] end, kernel in goOn(until: end, orReady: kernel)
    }
    for (number, command) in plan.commands.enumerated() { schedule(.operate(.begin(number)), at: command.at) }
  }

  func operate(_ operation: Operation) throws {
    guard let operators else { return }
    // One command after another.
    guard !operators.isBusy else {
      return schedule(.operate(operation), at: network.now + WorkerWorld.soonNanoseconds)
    }
    switch operation {
    case .order(let command, let number, let tries): order(command, number, tries: tries, operators)
    case .begin(let number):
      switch plan.commands[number].kind {
      case .cancel: order(.cancel, number, tries: 0, operators)
      case .pauseFor: order(.pause, number, tries: 0, operators)
      case .reap, .reconcile: try keepChannels(plan.commands[number].kind, operators)
      }
    }
  }

  private func order(
    _ command: ExpansionState.Command, _ number: Int, tries: Int, _ operators: SimulatedOperator
  ) {
    guard let event = plan.commands[number].event.flatMap({ plan.audiences[$0] }), case .job(let job) = event.kind,
      let scope = AppScope(app: job.app.id, environment: .production)
    else { return }
    let sentAt = WorkerWorld.unixMilliseconds(at: network.now)
    note("operator: \(command.rawValue) \(job.id)")
    let answer = operators.control(command, AudienceID(job.id, in: scope))
    note("operator: \(command.rawValue) \(job.id): \(answer)")
    func ordered(_ answeredAt: Int64?) {
      let order = AudienceAuditor.Order(command: command, sentAt: sentAt, answeredAt: answeredAt)
      auditor(of: event)?.ordered(order, job.id)
    }
    let again = Operation.order(command, number, tries: tries + 1)
    switch answer {
    case .failed:
      ordered(nil)
      schedule(.operate(again), at: network.now + WorkerWorld.laterNanoseconds)
    case .unknown:
      guard command != .resume, tries < WorkerWorld.triesMaximum else { return }
      schedule(.operate(again), at: network.now + WorkerWorld.soonNanoseconds)
    case .known(let isTaken):
      guard isTaken else { return }
      ordered(WorkerWorld.unixMilliseconds(at: network.now))
      guard command == .pause, case .pauseFor(let milliseconds, let thenCancels) = plan.commands[number].kind else {
        return
      }
      let next = Operation.order(thenCancels ? .cancel : .resume, number, tries: 0)
      schedule(.operate(next), at: network.now + milliseconds * 1_000_000)
    }
  }

  private func keepChannels(_ kind: SimulatedCommand.Kind, _ operators: SimulatedOperator) throws {
    guard let scope = AppScope(app: SimulatedChannelUsers.app, environment: .production) else { return }
    note("operator: \(kind) channels")
    guard case .reap = kind else { return try operators.reconcile(scope) }
    for channel in try operators.reap(scope, unusedForSeconds: WorkerWorld.unusedSeconds) {
      note("operator: reaped \(channel)")
      channelUsers.wasDeleted(channel.text)
      audiences.reaped(channel.text)
    }
  }
}
