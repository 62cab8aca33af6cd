import Logging
import ServiceLifecycle

/// Runs a service while a body runs.
///
/// The body begins once the service listens. When the body ends, even with an error, the service
/// shuts down gracefully. If the service fails, the body is cancelled.
struct ServiceScope<Ports: Sendable>: Sendable {
    private enum Ending<Value: Sendable>: Sendable {
        case service(Result<Void, any Error>)
        /// The body's result, or `nil` if the service never listened.
        case body(Result<Value, any Error>?)
    }

    private let listening = AsyncStream.makeStream(of: Ports.self)

    /// Starts the body, once the service accepts requests.
    func listen(on ports: Ports) { listening.continuation.yield(ports) }

    /// Runs both, and returns the body's result.
    ///
    /// - Throws: The first error of the body or the service, or `CancellationError` if the service
    ///   ended before it listened.
    func run<Value: Sendable>(
        _ service: any Service,
        logger: Logger,
        _ body: @escaping @Sendable (Ports) async throws -> Value
    ) async throws -> Value {
        let group = ServiceGroup(services: [service], logger: logger)
        let result = await withTaskGroup(of: Ending<Value>.self) { tasks in
            tasks.addTask {
                // Without this, a service that never listens would be awaited forever.
                defer { listening.continuation.finish() }
                return .service(await Result.of { try await group.run() })
            }
            tasks.addTask {
                var ports = listening.stream.makeAsyncIterator()
                guard let ports = await ports.next() else { return .body(nil) }
                let result = await Result.of { try await body(ports) }
                await group.triggerGracefulShutdown()
                return .body(result)
            }
            return await Self.result(of: &tasks)
        }
        return try result.get()
    }

    /// Waits for both, and returns the first error or the body's value.
    private static func result<Value>(
        of tasks: inout TaskGroup<Ending<Value>>
    ) async -> Result<Value, any Error> {
        var result: Result<Value, any Error>?
        var failure: (any Error)?
        while let ending = await tasks.next() {
            switch ending {
            case .service(.success), .body(nil): break
            case .service(.failure(let error)):
                failure = failure ?? error
                tasks.cancelAll()
            case .body(.failure(let error)?): failure = failure ?? error
            case .body(.success(let value)?): result = .success(value)
            }
        }
        if let failure { return .failure(failure) }
        return result ?? .failure(CancellationError())
    }
}

extension Result where Failure == any Error, Success: Sendable {
    /// Returns the outcome of a body that may suspend.
    fileprivate static func of(_ body: () async throws -> Success) async -> Self {
        do { return .success(try await body()) } catch { return .failure(error) }
    }
}
