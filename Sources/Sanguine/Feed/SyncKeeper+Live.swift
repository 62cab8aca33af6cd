import SanguineModel
import Synchronization

// MARK: - Live

extension SyncKeeper {
    /// Follows the feed live from now on, anew if it did already: the user may be another.
    func followLive() {
        guard let network, network.call.exchange.transport is any StreamingTransport else { return }
        let (feed, isNew) = guarded.withLock { guarded -> (LiveFeed?, Bool) in
            guard !guarded.isClosed else { return (nil, false) }
            if let feed = guarded.live { return (feed, false) }
            let feed = liveFeed(network)
            guarded.live = feed
            return (feed, true)
        }
        if isNew { feed?.start() } else { feed?.restart() }
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
                receive: { [weak self] batch, epoch in
                    guard let self else { return }
                    if receive(batch, of: epoch) { pull() }
                },
                pull: { [weak self] in _ = self?.pull() },
                setLive: { [weak self] in self?.setLive($0) }
            )
        )
    }

    /// Where a live connection begins: where the last pull has ended.
    private var livePlace: LiveFeed.Place? {
        guarded.withLock { guarded in
            guard guarded.isOpen, !guarded.isClosed, guarded.state.isComplete,
                guarded.epoch.account != nil
            else { return nil }
            return LiveFeed.Place(position: guarded.state.pullPosition, epoch: guarded.epoch)
        }
    }
}
