import NIOPosix
import PushCore
import Synchronization

/// Reads and writes large bodies on another thread than the event loop's, which serves all other requests meanwhile. One piece of work at a
/// time; keys take turns, so that one with many large bodies delays another's by one of them.
final class LargeWork: Sendable {
  private struct State {
    /// By key: its work, the oldest first.
    var waiting: [String: [@Sendable () -> Void]] = [:]
    /// Keys with waiting work, in the order of their turns.
    var turns = RingBuffer<String>(growingFrom: 16)
    var isRunning = false
  }

  private let state = Mutex(State())

  /// Returns the result of the work. What is small is done at once, where the caller is.
  /// - Parameters:
  ///   - count: bytes that it reads or writes.
  ///   - key: the id of the API key that it is for.
  func run<Value: Sendable>(
    _ count: Int, for key: String, _ work: @escaping @Sendable () throws(Problem) -> Value
  ) async throws(Problem) -> Value {
    guard count > GatewayLimits.smallWorkBytesMaximum else { return try work() }
    let result: Result<Value, Problem> = await withCheckedContinuation { continuation in
      add(for: key) {
        let result: Result<Value, Problem>
        do throws(Problem) {
          result = .success(try work())
        } catch {
          result = .failure(error)
        }
        continuation.resume(returning: result)
      }
    }
    return try result.get()
  }

  private func add(for key: String, _ work: @escaping @Sendable () -> Void) {
    let isFirst = state.withLock { state in
      if state.waiting[key] == nil { state.turns.append(key) }
      state.waiting[key, default: []].append(work)
      defer { state.isRunning = true }
      return !state.isRunning
    }
    if isFirst { runNext() }
  }

  private func runNext() {
    NIOThreadPool.singleton.submit { [self] _ in
      guard let work = takeNext() else { return }
      work()
      runNext()
    }
  }

  private func takeNext() -> (@Sendable () -> Void)? {
    state.withLock { state in
      guard let key = state.turns.popFirst(), var works = state.waiting[key], !works.isEmpty else {
        state.isRunning = false
        return nil
      }
      let work = works.removeFirst()
      state.waiting[key] = works.isEmpty ? nil : works
      if !works.isEmpty { state.turns.append(key) }
      return work
    }
  }
}
