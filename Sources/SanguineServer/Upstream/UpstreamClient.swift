public import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// Calls a language model behind any server that speaks OpenAI's chat completions.
///
/// ```swift
/// let configuration = try UpstreamConfiguration(url: "http://localhost:8081", model: "stand-in")
/// let http = HTTPClient(configuration: configuration.httpClientConfiguration())
/// let upstream = UpstreamClient(configuration: configuration, httpClient: http)
/// let answer = try await upstream.complete(prompt)
/// ```
///
/// A call is made once: whether to try again is for the caller to say, who knows what it costs. If
/// the caller's task is cancelled, or time is up, the connection is closed and never used again, so
/// that its late answer reaches nobody.
public struct UpstreamClient: Sendable {
    private enum Event: Sendable {
        case ended(Result<UpstreamAnswer, UpstreamError>)
        case timeIsUp
        case givenUp
    }

    /// What is called.
    public let configuration: UpstreamConfiguration

    private let httpClient: HTTPClient
    private let clock: any Clock<Duration>

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - configuration: What to call, and within which limits.
    ///   - httpClient: A client set up with
    ///     ``UpstreamConfiguration/httpClientConfiguration(connections:)``; its owner shuts it
    ///     down.
    ///   - clock: The clock that measures the timeout. Tests pass a manual one.
    public init(
        configuration: UpstreamConfiguration,
        httpClient: HTTPClient,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        self.configuration = configuration
        self.httpClient = httpClient
        self.clock = clock
    }

    /// Asks the model, and returns its whole answer.
    ///
    /// - Throws: ``UpstreamError``, which says whether the upstream may have done the work.
    public func complete(_ prompt: UpstreamPrompt) async throws(UpstreamError) -> UpstreamAnswer {
        let sent = SentFlag()
        guard let request = request(for: prompt, sent: sent) else {
            throw .failed(mayHaveBeenSent: false)
        }
        let result = await withTaskGroup(of: Event.self) { group in
            group.addTask { .ended(await self.perform(request, sent: sent)) }
            group.addTask {
                do {
                    try await clock.sleep(for: configuration.timeout)
                    return .timeIsUp
                } catch {
                    return .givenUp
                }
            }
            var isTimeUp = false
            for await event in group {
                switch event {
                case .ended(.failure) where isTimeUp:
                    return Result<UpstreamAnswer, UpstreamError>
                        .failure(.timeout(mayHaveBeenSent: sent.isSet))
                case .ended(let result):
                    group.cancelAll()
                    return result
                case .timeIsUp:
                    isTimeUp = true
                    group.cancelAll()
                case .givenUp:
                    // The request hears of it as well, and may just have been answered.
                    continue
                }
            }
            preconditionFailure("The request's own task always ends.")
        }
        return try result.get()
    }

    private func request(for prompt: UpstreamPrompt, sent: SentFlag) -> HTTPClientRequest? {
        let body = UpstreamRequestBody(
            model: configuration.model,
            messages: prompt.messages,
            maxTokens: prompt.maxOutputTokens
        )
        guard let data = try? JSONEncoder().encode(body) else { return nil }
        var request = HTTPClientRequest(url: configuration.endpoint)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.headers.add(name: "Accept", value: "application/json")
        if let key = configuration.apiKey {
            request.headers.add(name: "Authorization", value: "Bearer \(key.reveal())")
        }
        // The body is drawn when the head goes out: that is how `sent` knows.
        let stream = OneBuffer(buffer: ByteBuffer(bytes: data), sent: sent)
        request.body = .stream(stream, length: .known(Int64(data.count)))
        return request
    }

    private func perform(
        _ request: HTTPClientRequest,
        sent: SentFlag
    ) async -> Result<UpstreamAnswer, UpstreamError> {
        do {
            // The deadline is the sleeping task's: this one would end with the answer's head.
            let response = try await httpClient.execute(request, deadline: .distantFuture)
            guard response.status == .ok else {
                let seconds = response.headers.first(name: "Retry-After").flatMap { Int($0) }
                let retryAfter = seconds.flatMap { (0...86_400).contains($0) ? $0 : nil }
                let status = Int(response.status.code)
                return .failure(.refused(status: status, retryAfterSeconds: retryAfter))
            }
            let body = try await response.body.collect(upTo: configuration.answerBytes)
            guard let answer = UpstreamAnswer(body: Data(body.readableBytesView)) else {
                return .failure(.unreadable)
            }
            return .success(answer)
        } catch is NIOTooManyBytesError {
            return .failure(.tooLarge(limit: configuration.answerBytes))
        } catch {
            if Task.isCancelled { return .failure(.cancelled(mayHaveBeenSent: sent.isSet)) }
            if let error = error as? HTTPClientError, error == .connectTimeout {
                return .failure(.timeout(mayHaveBeenSent: false))
            }
            return .failure(.failed(mayHaveBeenSent: sent.isSet))
        }
    }
}

/// Whether a request's body has been drawn.
///
/// Set once, by the connection.
private final class SentFlag: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() { flag.store(true, ordering: .releasing) }
}

/// A request's body, in one piece.
private struct OneBuffer: AsyncSequence, Sendable {
    struct AsyncIterator: AsyncIteratorProtocol {
        var buffer: ByteBuffer?
        let sent: SentFlag

        mutating func next() async -> ByteBuffer? {
            sent.set()
            return buffer.take()
        }
    }

    let buffer: ByteBuffer
    let sent: SentFlag

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer, sent: sent) }
}
