import Foundation
public import Sanguine
import Synchronization

// Streams break and are late; nothing of them comes twice or out of order, as in TCP.
extension FaultyNetwork {
    /// Opens a stream that may break, and whose parts may be late.
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
            let pump = Task { [weak self, weak stream] in
                while let part = await Self.next(of: upstream) {
                    guard let self, let stream, await pass(part, to: stream, plan, request) else {
                        break
                    }
                }
                upstream.cancel()
                stream?.finish(.interrupted("the network is gone"))  // Unless it has ended.
                self?.release(plan.number)
            }
            state.passages[plan.number] = Passage(stream: stream, pump: pump)
            return true
        }
        guard isOpen else { throw .interrupted("the network was partitioned") }
        return stream
    }

    /// What comes next; `nil` after the end was handed on.
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

    /// Hands a part on; returns whether there may be more.
    private func pass(
        _ part: Part,
        to stream: TransportStream,
        _ plan: Plan,
        _ request: TransportRequest
    ) async -> Bool {
        let (delay, isBroken) = drawPart(request)
        guard await wait(delay) else { return false }
        switch part {
        case .end(let error):
            stream.finish(error)
            return false
        case .bytes where isBroken:
            note(.streamBroken, plan.number, request)
            stream.finish(.interrupted("the connection broke"))
            return false
        case .bytes(let bytes):
            stream.receive(bytes)
            return true
        }
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
