import Logging
import PushCore
import PushIO
import PushLane

/// Answers the questions of lanes in `ChannelPolicyCache`. Reports to the registry which channels lanes sent to, and
/// which channels are gone.
final class ChannelPolicyResolver {
  /// One command stores all uses of one app in one second.
  private struct Moment: Hashable {
    let scope: AppScope
    let unixSeconds: Int64
  }

  private let loop: EventLoop
  private let registry: ChannelRegistry
  private let cache: ChannelPolicyCache
  private let questionsMaximum: Int
  private let useMilliseconds: Int64
  private var asking = 0
  private var usesReportedAt: Instant

  init(loop: EventLoop, registry: ChannelRegistry, cache: ChannelPolicyCache, settings: ChannelConsumerSettings) {
    self.loop = loop
    self.registry = registry
    self.cache = cache
    questionsMaximum = settings.questionsMaximum
    useMilliseconds = settings.useMilliseconds
    usesReportedAt = loop.now.monotonic
  }

  /// Call once in each turn of the loop.
  func turn() {
    let isUseDue = loop.now.monotonic.milliseconds(since: usesReportedAt) >= useMilliseconds
    if isUseDue { usesReportedAt = loop.now.monotonic }
    let work = cache.take(questionsMaximum: max(0, questionsMaximum - asking), withUses: isUseDue)
    for (key, channel) in work.questions {
      asking += 1
      registry.storage(of: channel.id, in: channel.scope) { [weak self] result in
        guard let self else { return }
        asking -= 1
        registry.counters.policiesResolved += 1
        cache.answer(key, try? result.get(), now: loop.now.monotonic)
      }
    }
    for channel in work.gone { forget(channel) }
    use(work.uses)
  }

  /// Stores all uses now, before the channel consumer stops.
  func reportUses() {
    use(cache.take(questionsMaximum: 0, withUses: true).uses)
  }

  private func forget(_ channel: ChannelPolicyCache.Channel) {
    registry.forget(channel.id, in: channel.scope) { [weak registry] result in
      guard case .success(true) = result else { return }
      registry?.say(
        .warning, "channels: APNs does not know \(channel.id) of \(channel.scope) any more: it is forgotten")
    }
  }

  private func use(_ uses: [ChannelPolicyCache.Use]) {
    var ids: [Moment: [ChannelID]] = [:]
    // In order of first use, not in a dictionary's order.
    var moments: [Moment] = []
    for use in uses {
      let moment = Moment(scope: use.channel.scope, unixSeconds: use.unixSeconds)
      if ids[moment] == nil { moments.append(moment) }
      ids[moment, default: []].append(use.channel.id)
    }
    for moment in moments { registry.use(ids[moment] ?? [], in: moment.scope, unixSeconds: moment.unixSeconds) }
  }
}
