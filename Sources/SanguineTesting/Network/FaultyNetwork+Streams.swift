import Foundation
public import Sanguine
import Synchronization

// Streams break and are delayed, but like TCP, they deliver nothing twice or out of order.
extension FaultyNetwork {
    /// Opens a stream that may break, and whose parts may be delayed.
    public func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        guard base is any StreamingTransport else {
            let stream = TransportStream(response: TransportResponse(status: 501), onCancel: {})
            stream.finish()
            return stream
        }
        let (upstream, plan) = try await exchange(request) { [self] plan in
            await carry(request, plan.withoutCopy) { base throws(TransportError) in
                guard let base = base as? any StreamingTransport else {
                    throw .invalid("the transport has no streams")
                }
                return try await base.stream(request)
            }
        }
        let stream = TransportStream(response: upstream.response) { [weak self] in
            self?.release(plan.number)
        }
        let isOpen = state.withLock { state in
            guard state.partitions == plan.partitions else { return false }
            let cut = state.cuts[request.path]?.popFirst()
            let pump = Task { [weak self, weak stream, room = stream.room] in
                var rest = cut
                while let part = await Self.next(of: upstream) {
                    // Neither is retained while the reader is slow.
                    let isCut = rest == 0
                    guard await self?.pass(part, to: stream, plan, request, isCut: isCut) == true
                    else { break }
                    rest = rest.map { $0 - 1 }
                    await room.wait()
                }
                upstream.cancel()
                stream?.finish(.interrupted("the network was released"))  // Unless it has ended.
                self?.release(plan.number)
            }
            state.passages[plan.number] = Passage(stream: stream, pump: pump)
            return true
        }
        guard isOpen else { throw .interrupted("the network was partitioned") }
        return stream
    }

    /// Returns the next part, or `nil` after the end.
    private static func next(of upstream: TransportStream) async -> Part? {
        do throws(TransportError) {
            return try await upstream.next().map { .bytes($0) } ?? .end(nil)
        } catch {
            return .end(error)
        }
    }

    private enum Part {
        case bytes(Data)
        case end(TransportError?)
    }

    /// Passes a part on; returns whether there may be more.
    private func pass(
        _ part: Part,
        to stream: TransportStream?,
        _ plan: Plan,
        _ request: TransportRequest,
        isCut: Bool
    ) async -> Bool {
        var (delay, isBroken) = drawPart(request)
        isBroken = isBroken || isCut
        guard await wait(delay), let stream else { return false }
        switch part {
        case .end(let error):
            stream.finish(error)
            return false
        case .bytes(let bytes) where isBroken:
            // TCP has no events, so some bytes of the last event may arrive.
            stream.receive(bytes.prefix(drawLength(of: bytes, request)))
            note(.streamBroken, plan.number, request)
            stream.finish(.interrupted("the connection broke"))
            return false
        case .bytes(let bytes):
            stream.receive(bytes)
            return true
        }
    }

    /// Breaks a later stream after the given number of parts, in the middle of the next one.
    ///
    /// A part of a streamed answer is one event. The break does not stop a running call on the
    /// server.
    ///
    /// - Parameters:
    ///   - path: The path of the request: `/v1/functions/ask`. Several breaks for one path apply to
    ///     successive streams.
    ///   - parts: The number of parts that arrive completely. Default: none.
    public func breakStream(of path: String, afterParts parts: Int = 0) {
        state.withLock { $0.cuts[path, default: []].append(max(0, parts)) }
    }

    private func release(_ number: Int) {
        state.withLock { $0.passages.removeValue(forKey: number) }?.pump.cancel()
    }
}

extension FaultyNetwork.Plan {
    fileprivate var withoutCopy: FaultyNetwork.Plan {
        FaultyNetwork.Plan(
            number: number,
            partitions: partitions,
            there: there,
            back: back,
            copy: copy,
            isRequestLost: isRequestLost,
            isAnswerLost: isAnswerLost,
            isDoubled: false,
            timeToNotice: timeToNotice
        )
    }
}
