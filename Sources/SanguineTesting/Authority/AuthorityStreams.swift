import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel

/// The live connections, and the events that are still to be written to them.
///
/// Invariant: a connection receives changes in the order of the feed, each once.
struct AuthorityStreams: Sendable {
    /// Bytes to write outside of the lock.
    struct Delivery: Sendable {
        let stream: TransportStream
        let bytes: Data
    }

    private struct Reader: Sendable {
        // The client's end owns the stream: releasing it ends the connection.
        weak var stream: TransportStream?
        let pass: AccessPass
        var since: Int64
        /// The epoch that the client sent, or `nil` after the first read.
        var epoch: Epoch?
        /// The horizon that was last sent to the client.
        var horizon: Int64?
        /// The revision of the switches that the client has.
        var config: Int64?
        /// The collections whose lists the client shows.
        let lists: Set<String>
    }

    private var readers: [UInt64: Reader] = [:]
    private var undelivered: [Delivery] = []
    private var isDelivering = false

    var count: Int { readers.count }

    /// Adds a connection, and enqueues the changes since its position.
    mutating func add(
        _ number: UInt64,
        _ stream: TransportStream,
        _ pass: AccessPass,
        at mark: FeedMark,
        knowing config: Int64?,
        following lists: Set<String>,
        _ memory: MemoryAuthority
    ) {
        readers[number] = Reader(
            stream: stream,
            pass: pass,
            since: mark.number,
            epoch: mark.epoch,
            config: config,
            lists: lists
        )
        undelivered.append(Delivery(stream: stream, bytes: Data("retry: 2000\n\n".utf8)))
        advance(number, memory)
    }

    mutating func remove(_ number: UInt64) { readers[number] = nil }

    /// Removes the connections whose pass matches, and returns them to be ended.
    mutating func removeAll(where condition: (AccessPass) -> Bool) -> [TransportStream] {
        let gone = readers.filter { condition($0.value.pass) }
        for number in gone.keys { readers[number] = nil }
        return gone.values.compactMap(\.stream)
    }

    /// Enqueues new changes for all connections of an account.
    mutating func changed(_ account: Identifier, _ memory: MemoryAuthority) {
        for number in readers.keys.sorted()
        where readers[number]?.pass.identity.account == account {
            advance(number, memory)
        }
    }

    /// Enqueues changed switches for all connections.
    mutating func switched(_ memory: MemoryAuthority) {
        for number in readers.keys.sorted() { advance(number, memory) }
    }

    /// Enqueues notes of changed lists for the connections that show one.
    mutating func listsChanged(_ changed: ChangedLists) {
        for number in readers.keys.sorted() {
            guard let reader = readers[number], let stream = reader.stream else { continue }
            let account = reader.pass.identity.account
            let names = changed.collections.intersection(reader.lists).filter { name in
                changed.readers[name].map { $0.contains(account) } ?? true
            }
            guard !names.isEmpty else { continue }
            let bytes = LiveEvents.bytes(ofChangedLists: names.sorted())
            undelivered.append(Delivery(stream: stream, bytes: Data(bytes)))
        }
    }

    mutating func sayAll(_ text: String) {
        for number in readers.keys.sorted() {
            guard let stream = readers[number]?.stream else { continue }
            undelivered.append(Delivery(stream: stream, bytes: Data(text.utf8)))
        }
    }

    private mutating func advance(_ number: UInt64, _ memory: MemoryAuthority) {
        while let reader = readers[number] {
            guard let stream = reader.stream else {
                readers[number] = nil
                return
            }
            let request = Authority.PullRequest(
                since: reader.since,
                limit: WireLimits.largestPull,
                horizon: reader.horizon,
                epoch: reader.epoch,
                config: reader.config
            )
            let config = memory.authority.switches.revision
            // A deleted account has no changes.
            guard let answer = try? memory.pull(reader.pass.identity.account, request) else {
                undelivered.append(Delivery(stream: stream, bytes: Data()))
                return
            }
            readers[number]?.since = answer.next
            readers[number]?.epoch = nil
            readers[number]?.config = config
            readers[number]?.horizon = answer.horizon ?? reader.horizon
            let bytes = LiveEvents.bytes(of: answer, after: reader.since)
            // Even without events: a stream that is released here must end outside of the lock.
            undelivered.append(Delivery(stream: stream, bytes: Data(bytes)))
            guard answer.hasMore else { return }
        }
    }

    // MARK: - Delivery

    /// Begins the delivery, and returns whether the caller must perform it, because no other does.
    mutating func begin() -> Bool {
        guard !isDelivering, !undelivered.isEmpty else { return false }
        isDelivering = true
        return true
    }

    /// Returns the next delivery, or ends the delivery if there is none.
    mutating func next() -> Delivery? {
        isDelivering = !undelivered.isEmpty
        return undelivered.isEmpty ? nil : undelivered.removeFirst()
    }
}
