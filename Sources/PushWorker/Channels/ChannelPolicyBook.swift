package import PushCore
package import PushIO
import Synchronization

/// Storage policies of channels, as far as this process knows them: lanes ask, the channel desk finds out.
///
/// A lane asks at most once in ten seconds or minutes for a channel, so that the lock is nothing a job pays for.
package final class ChannelPolicyBook: Sendable {
  package struct Channel: Hashable, Sendable {
    package let scope: ChannelScope
    package let id: ChannelID

    package init(scope: ChannelScope, id: ChannelID) {
      self.scope = scope
      self.id = id
    }
  }

  package enum Answer: Hashable, Sendable {
    case known(StoragePolicy)
    /// It could not be found out now.
    case unknown
  }

  /// What the desk takes away to work on.
  package struct Work: Sendable {
    package var questions: [(key: GateKey, channel: Channel)] = []
    /// Channels that were sent to, and when last, Unix seconds.
    package var uses: [Channel: Int64] = [:]
    /// Channels that APNs does not know any more.
    package var gone: [Channel] = []
  }

  private struct State {
    var answers: [GateKey: (answer: Answer, until: Instant)] = [:]
    var channels: [GateKey: Channel] = [:]
    var asked: Set<GateKey> = []
    var questions: [GateKey] = []
    var uses: [GateKey: Int64] = [:]
    var gone: [Channel] = []
    var mailbox: Mailbox?

    mutating func note(_ channel: Channel, _ key: GateKey) {
      if channels.count >= ChannelPolicyBook.entriesMaximum { channels.removeAll(keepingCapacity: true) }
      channels[key] = channel
    }
  }

  /// Entries of each table; a full one begins anew, and is asked again.
  private static let entriesMaximum = 20_000
  private static let knownMilliseconds: Int64 = 3_600_000
  private static let unknownMilliseconds: Int64 = 10_000

  private let state = Mutex(State())

  package init() {}

  // MARK: - For lanes

  /// nil: not known yet.
  func look(_ key: GateKey, now: Instant) -> Answer? {
    state.withLock { state in
      guard let known = state.answers[key], known.until > now else { return nil }
      return known.answer
    }
  }

  /// Asks for a channel, once until it is answered. `channel` names it; nil: it cannot be one.
  func ask(_ key: GateKey, _ channel: () -> Channel?) {
    let mailbox = state.withLock { state -> Mailbox? in
      guard state.asked.count < ChannelPolicyBook.entriesMaximum, state.asked.insert(key).inserted else { return nil }
      guard let channel = channel() else { return nil }
      state.note(channel, key)
      state.questions.append(key)
      return state.mailbox
    }
    mailbox?.wake()
  }

  /// A broadcast goes to a channel.
  func use(_ key: GateKey, at unixSeconds: Int64, _ channel: () -> Channel?) {
    state.withLock { state in
      guard state.uses.count < ChannelPolicyBook.entriesMaximum else { return }
      if state.channels[key] == nil, let channel = channel() { state.note(channel, key) }
      state.uses[key] = unixSeconds
    }
  }

  /// APNs does not know the channel any more.
  func gone(_ key: GateKey) {
    let mailbox = state.withLock { state -> Mailbox? in
      state.answers[key] = nil
      state.uses[key] = nil
      guard let channel = state.channels[key], state.gone.count < ChannelPolicyBook.entriesMaximum else { return nil }
      state.gone.append(channel)
      return state.mailbox
    }
    mailbox?.wake()
  }

  // MARK: - For the desk

  /// Is woken by questions from now on; nil: not any more.
  package func attach(_ mailbox: Mailbox?) {
    state.withLock { $0.mailbox = mailbox }
  }

  /// What is to be done; `questionsMaximum` of the questions. `withUses`: also which channels were used since the last time.
  package func take(questionsMaximum: Int, withUses: Bool) -> Work {
    state.withLock { state in
      var work = Work()
      if !state.questions.isEmpty {
        for key in state.questions.prefix(questionsMaximum) {
          if let channel = state.channels[key] { work.questions.append((key, channel)) }
        }
        state.questions.removeFirst(min(questionsMaximum, state.questions.count))
      }
      swap(&work.gone, &state.gone)
      guard withUses, !state.uses.isEmpty else { return work }
      for (key, seconds) in state.uses {
        switch state.answers[key]?.answer {
        case .known:
          if let channel = state.channels[key] { work.uses[channel] = seconds }
          state.uses[key] = nil
        case .unknown:
          // Not known to be a channel at all.
          state.uses[key] = nil
        case nil:
          // Asked where nobody did: what expiration 0 is sent to needs no answer first.
          if state.asked.insert(key).inserted { state.questions.append(key) }
        }
      }
      return work
    }
  }

  /// What was found out. nil: nothing.
  package func answer(_ key: GateKey, _ storage: StoragePolicy?, now: Instant) {
    state.withLock { state in
      state.asked.remove(key)
      if state.answers.count >= ChannelPolicyBook.entriesMaximum { state.answers.removeAll(keepingCapacity: true) }
      let milliseconds =
        storage == nil ? ChannelPolicyBook.unknownMilliseconds : ChannelPolicyBook.knownMilliseconds
      state.answers[key] = (storage.map { .known($0) } ?? .unknown, now.adding(milliseconds: milliseconds))
    }
  }
}
