import Synchronization

extension RangeKeeper {
    /// What is known of the stretch at once, then every change of it.
    func updates(_ range: ClosedRange<Index>) -> AsyncStream<Values> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Values.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let number = watch(
            range,
            tell: { continuation.yield($0) },
            finish: { continuation.finish() }
        )
        // Whoever watches keeps this object alive.
        if let number { continuation.onTermination = { _ in self.unwatch(number) } }
        return stream
    }

    /// Tells what is known of the stretch at once, then every change of it.
    ///
    /// It is told under no lock, by one thread at a time, and must return at once. Whoever watches
    /// keeps this object alive.
    ///
    /// - Returns: The number to leave with, or `nil` if nothing will follow.
    func watch(
        _ range: ClosedRange<Index>,
        tell: @escaping @Sendable (Values) -> Void,
        finish: @escaping @Sendable () -> Void = {}
    ) -> UInt64? {
        guard let positions = Index.positions(range, upTo: RangeLimits.readSpan) else {
            tell(.unknown(range, error: .rangeTooLong(limit: RangeLimits.readSpan)))
            finish()
            return nil
        }
        let number = guarded.withLock { guarded -> UInt64? in
            guard !guarded.isClosed else { return nil }
            let number = guarded.nextNumber()
            guarded.watchers[number] = Watcher(
                range: range,
                positions: positions,
                tell: tell,
                finish: finish
            )
            return number
        }
        // The client is closed, or the key has become another query's.
        guard let number, observeEntry() else {
            if let number { unwatch(number) }
            finish()
            return nil
        }
        startLoad(for: number)
        self.tell()
        return number
    }

    /// Fetches what the watcher lacks; its end cancels it.
    func startLoad(for watcher: UInt64) {
        guarded.withLock { guarded in
            guard let positions = guarded.watchers[watcher]?.positions else { return }
            let number = guarded.nextNumber()
            guarded.watchers[watcher]?.loads[number] = Task.detached { [weak self] in
                // A failure reaches the watcher through its state.
                _ = try? await self?.load(RangeSet(positions))
                self?.guarded.withLock { $0.watchers[watcher]?.loads[number] = nil }
            }
        }
    }

    /// Tells each watcher what is new for it, unless another thread is at it and tells this, too.
    func tell() {
        let mayBegin = guarded.withLock { guarded in
            guard !guarded.watchers.isEmpty else { return false }
            guarded.mustTell = true
            guard !guarded.isTelling else { return false }
            guarded.isTelling = true
            return true
        }
        guard mayBegin else { return }
        while true {
            let watchers = guarded.withLock { guarded -> [UInt64: Watcher]? in
                guard guarded.mustTell else {
                    guarded.isTelling = false
                    return nil
                }
                guarded.mustTell = false
                return guarded.watchers
            }
            guard let watchers else { return }
            for (number, watcher) in watchers {
                let news = snapshot(watcher.range, error: watcher.error)
                guard news != watcher.told else { continue }
                guarded.withLock { $0.watchers[number]?.told = news }
                watcher.tell(news)
            }
        }
    }

    // The entry is observed while it has watchers: the cache then keeps it in memory, and fetches
    // it after an invalidation of more than this query.
    private func observeEntry() -> Bool {
        let observer = TypedRecord<Contents>.Observer(
            tell: { [weak self] _ in self?.tell() },
            finish: { [weak self] in self?.close() }
        )
        guard guarded.withLock({ $0.observation == nil }) else { return true }
        settled()  // The cache fetches an entry at once that is not fresh; the watcher's load does.
        guard let observation = queries.observe(entry, observer) else { return false }
        let surplus = guarded.withLock { guarded -> UInt64? in
            guard guarded.observation == nil, !guarded.watchers.isEmpty else { return observation }
            guarded.observation = observation
            return nil
        }
        if let surplus { queries.unobserve(entry, surplus) }
        return true
    }

    /// Ends what ``watch(_:tell:finish:)`` began, and the requests that nobody else needs.
    func unwatch(_ number: UInt64) {
        let (watcher, observation) = guarded.withLock { guarded -> (Watcher?, UInt64?) in
            let watcher = guarded.watchers.removeValue(forKey: number)
            guard guarded.watchers.isEmpty else { return (watcher, nil) }
            defer { guarded.observation = nil }
            return (watcher, guarded.observation)
        }
        for load in (watcher?.loads ?? [:]).values { load.cancel() }
        if let observation { queries.unobserve(entry, observation) }
    }
}
