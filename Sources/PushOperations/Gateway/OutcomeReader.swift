import Synchronization

/// Passes outcomes from the backend's thread to the task that writes them to a client.
package final class OutcomeReader: Sendable {
  private struct State {
    var events: [OutcomeEvent] = []
    var waiter: CheckedContinuation<Void, Never>?
    var hasEnded = false
  }

  private let state = Mutex(State())

  /// All events since the last call, at least one; nil: there will be no more. For one task, which ends the reader when it is cancelled.
  package func next() async -> [OutcomeEvent]? {
    while true {
      let (events, hasEnded) = state.withLock { state in
        defer { state.events = [] }
        return (state.events, state.hasEnded)
      }
      if !events.isEmpty { return events }
      if hasEnded { return nil }
      await withTaskCancellationHandler {
        await withCheckedContinuation { wait($0) }
      } onCancel: {
        end()
      }
    }
  }

  private func wait(_ waiter: CheckedContinuation<Void, Never>) {
    let isOver = state.withLock { state in
      if !state.events.isEmpty || state.hasEnded { return true }
      state.waiter = waiter
      return false
    }
    if isOver { waiter.resume() }
  }

  /// Returns false if the client is gone.
  func deliver(_ event: OutcomeEvent) -> Bool {
    let (isTaken, waiter) = state.withLock { state in
      guard !state.hasEnded else { return (false, nil as CheckedContinuation<Void, Never>?) }
      state.events.append(event)
      return (true, state.waiter.take())
    }
    waiter?.resume()
    return isTaken
  }

  /// Nothing more is delivered.
  func end() {
    let waiter = state.withLock { state in
      state.hasEnded = true
      state.events = []
      return state.waiter.take()
    }
    waiter?.resume()
  }
}
