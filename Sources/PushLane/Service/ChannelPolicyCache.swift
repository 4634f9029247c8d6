package import PushCore
package import PushIO
import Synchronization

/// Storage policies of channels, as far as this process knows them: lanes ask, the channel consumer finds out.
///
/// A lane asks at most once in ten seconds or minutes for a channel, so jobs do not wait for the lock.
package final class ChannelPolicyCache: Sendable {
  package struct Channel: Hashable, Sendable {
    package let scope: AppScope
    package let id: ChannelID

    package init(scope: AppScope, id: ChannelID) {
      self.scope = scope
      self.id = id
    }
  }

  /// A channel that was used, and when last.
  package struct Use: Hashable, Sendable {
    package let channel: Channel
    package let unixSeconds: Int64

    package init(channel: Channel, unixSeconds: Int64) {
      self.channel = channel
      self.unixSeconds = unixSeconds
    }
  }

  package enum Answer: Hashable, Sendable {
    case known(StoragePolicy)
    /// It could not be found out now.
    case unknown
  }

  /// Work for the channel consumer.
  package struct Work: Sendable {
    package var questions: [(key: TargetKey, channel: Channel)] = []
    package var uses: [Use] = []
    /// Channels that APNs no longer knows.
    package var gone: [Channel] = []
  }

  /// What is known and wanted of one channel.
  private struct Entry {
    enum Question {
      case unasked
      /// Waits for the channel consumer. → asked
      case waiting
      /// The channel consumer has it. → unasked
      case asked
    }

    let key: TargetKey
    /// nil: it was evicted, and answered after that.
    var channel: Channel?
    var answer: Answer?
    var until = Instant(nanoseconds: 0)
    var question = Question.unasked
    /// Unix seconds of the last use that the channel consumer was not told about.
    var used: Int64?
  }

  /// A ring: the oldest entry is evicted, with its open question, which is asked again when needed.
  private struct State {
    private(set) var entries: [Entry] = []
    private var places: [TargetKey: Int] = [:]
    private var oldest = 0
    var waitingCount = 0
    var gone: [Channel] = []
    var mailbox: Mailbox?

    subscript(_ key: TargetKey) -> Entry? { places[key].map { entries[$0] } }

    /// Changes the entry of this key; creates it if there is none.
    mutating func update(_ key: TargetKey, _ change: (inout Entry) -> Void) {
      update(at: places[key] ?? makeRoom(for: key), change)
    }

    mutating func update(at place: Int, _ change: (inout Entry) -> Void) {
      let wasWaiting = entries[place].question == .waiting
      change(&entries[place])
      waitingCount += (entries[place].question == .waiting ? 1 : 0) - (wasWaiting ? 1 : 0)
    }

    private mutating func makeRoom(for key: TargetKey) -> Int {
      var place = entries.count
      if place < ChannelPolicyCache.entriesMaximum {
        entries.append(Entry(key: key))
      } else {
        place = oldest
        oldest = (oldest + 1) % entries.count
        places[entries[place].key] = nil
        update(at: place) { $0 = Entry(key: key) }
      }
      places[key] = place
      return place
    }

    /// The indices of the entries, the oldest first.
    var placesByAge: some Sequence<Int> {
      let (oldest, count) = (oldest, entries.count)
      return (0..<count).lazy.map { (oldest + $0) % count }
    }
  }

  /// Maximum of channels that are known, asked for or used; the oldest is evicted.
  package static let entriesMaximum = 20_000
  private static let knownMilliseconds: Int64 = 3_600_000
  private static let unknownMilliseconds: Int64 = 10_000

  private let state = Mutex(State())

  package init() {}

  // MARK: - For lanes

  /// nil: not known yet.
  package func look(_ key: TargetKey, now: Instant) -> Answer? {
    state.withLock { state in
      guard let entry = state[key], entry.until > now else { return nil }
      return entry.answer
    }
  }

  /// Asks for a channel, once until it is answered. `channel` names it; nil: it cannot be a channel.
  package func ask(_ key: TargetKey, _ channel: () -> Channel?) {
    let mailbox = state.withLock { state -> Mailbox? in
      guard state[key]?.question ?? .unasked == .unasked, let channel = channel() else { return nil }
      state.update(key) {
        $0.channel = channel
        $0.question = .waiting
      }
      return state.mailbox
    }
    mailbox?.wake()
  }

  /// A broadcast goes to a channel.
  package func use(_ key: TargetKey, at unixSeconds: Int64, _ channel: () -> Channel?) {
    state.withLock { state in
      guard let channel = state[key]?.channel ?? channel() else { return }
      state.update(key) {
        $0.channel = channel
        $0.used = unixSeconds
      }
    }
  }

  /// APNs no longer knows the channel.
  package func gone(_ key: TargetKey) {
    let mailbox = state.withLock { state -> Mailbox? in
      guard let entry = state[key] else { return nil }
      state.update(key) {
        $0.answer = nil
        $0.used = nil
      }
      guard let channel = entry.channel, state.gone.count < ChannelPolicyCache.entriesMaximum else { return nil }
      state.gone.append(channel)
      return state.mailbox
    }
    mailbox?.wake()
  }

  // MARK: - For the channel consumer

  /// Questions wake it from now on; nil: no longer.
  package func attach(_ mailbox: Mailbox?) {
    state.withLock { $0.mailbox = mailbox }
  }

  /// The open work, with at most `questionsMaximum` questions. `withUses`: also the channels used since the last time.
  package func take(questionsMaximum: Int, withUses: Bool) -> Work {
    state.withLock { state in
      var work = Work()
      swap(&work.gone, &state.gone)
      if withUses { takeUses(&state, into: &work) }
      guard state.waitingCount > 0, questionsMaximum > 0 else { return work }
      for place in state.placesByAge where state.entries[place].question == .waiting {
        guard let channel = state.entries[place].channel else { continue }
        work.questions.append((state.entries[place].key, channel))
        state.update(at: place) { $0.question = .asked }
        if work.questions.count == questionsMaximum || state.waitingCount == 0 { break }
      }
      return work
    }
  }

  private func takeUses(_ state: inout State, into work: inout Work) {
    for place in state.entries.indices {
      let entry = state.entries[place]
      guard let used = entry.used, let channel = entry.channel else { continue }
      switch entry.answer {
      case .known:
        work.uses.append(Use(channel: channel, unixSeconds: used))
        state.update(at: place) { $0.used = nil }
      case .unknown:
        // It is not known to be a channel.
        state.update(at: place) { $0.used = nil }
      case nil:
        // Nobody asked, because expiration 0 needs no answer; ask now.
        if entry.question == .unasked { state.update(at: place) { $0.question = .waiting } }
      }
    }
  }

  /// The result of a question. nil: none.
  package func answer(_ key: TargetKey, _ storage: StoragePolicy?, now: Instant) {
    let milliseconds = storage == nil ? ChannelPolicyCache.unknownMilliseconds : ChannelPolicyCache.knownMilliseconds
    state.withLock { state in
      state.update(key) {
        $0.question = .unasked
        $0.answer = storage.map { .known($0) } ?? .unknown
        $0.until = now.adding(milliseconds: milliseconds)
      }
    }
  }
}
