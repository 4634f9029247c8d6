import APNsSimulator
import PushCore

/// Compares the broker's records with the simulator's ledger.
struct FaultAudit {
  /// Jobs without an outcome, with an outcome other than `accepted`, or that the simulator did not accept.
  private(set) var lost = 0
  /// Jobs with more than one outcome.
  private(set) var reportedTwice = 0
  /// Jobs that the simulator accepted more than once.
  private(set) var twice = 0
  /// Those of them whose outcome is not marked ambiguous.
  private(set) var twiceUnmarked = 0
  private(set) var ambiguous = 0
  private(set) var attemptsMost = 0
  /// The longest time to an outcome, milliseconds.
  private(set) var slowest: Float = 0
  let overLimit: Int

  init(records: [PacedBroker.Record], ledger: Ledger) {
    overLimit = ledger.streamsOverLimit
    for (number, record) in records.enumerated() {
      let acceptances = ledger.acceptances[PacedBroker.identifier(of: number)] ?? 0
      if !record.isAccepted || acceptances == 0 { lost += 1 }
      if record.outcomes > 1 { reportedTwice += 1 }
      if acceptances > 1 {
        twice += 1
        if !record.isAmbiguous { twiceUnmarked += 1 }
      }
      if record.isAmbiguous { ambiguous += 1 }
      attemptsMost = max(attemptsMost, Int(record.attempts))
      slowest = max(slowest, record.latencyMilliseconds)
    }
  }
}
