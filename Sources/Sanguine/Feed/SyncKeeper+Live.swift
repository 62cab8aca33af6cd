import SanguineModel
import Synchronization

// MARK: - Live

extension SyncKeeper {
    /// Whether there is a server, and a transport for a connection that stays.
    var canBeLive: Bool { network?.call.exchange.transport is any StreamingTransport }

    /// Follows the feed live from now on.
    func followLive() {
        guard let network, network.call.exchange.transport is any StreamingTransport else { return }
        let feed = guarded.withLock { guarded -> LiveFeed? in
            guard guarded.ending == nil, guarded.live == nil else { return nil }
            let feed = liveFeed(network)
            guarded.live = feed
            return feed
        }
        feed?.start()
    }

    /// Ends the live connection, if there is one.
    func closeLive() {
        let feed = guarded.withLock { guarded in
            defer { guarded.live = nil }
            return guarded.live
        }
        feed?.close()
    }

    private func liveFeed(_ network: SyncNetwork) -> LiveFeed {
        LiveFeed(
            call: network.call,
            environment: LiveFeed.Environment(
                lifecycle: network.lifecycle,
                connectivity: network.connectivity,
                delay: environment.delay,
                random: environment.random
            ),
            handlers: LiveFeed.Handlers(
                place: { [weak self] in self?.livePlace },
                receive: { [weak self] batch in
                    guard let self else { return }
                    if receive(batch) { pull() }
                },
                pull: { [weak self] in _ = self?.pull() },
                setLive: { [weak self] in self?.setLive($0) }
            )
        )
    }

    /// Where a live connection begins: where the last pull has ended.
    private var livePlace: Int64? {
        guarded.withLock { guarded in
            guard guarded.isOpen, guarded.ending == nil, guarded.state.isComplete else {
                return nil
            }
            return guarded.state.pullPosition
        }
    }
}
