import Foundation
import Logging
import SanguineAuthority
import SanguineTesting
import ServiceLifecycle
import TestSupport
import Testing

@testable import SanguineServer

/// A service and a body that end with each other.
@Suite("Service scope", .bounded)
struct ServiceScopeTests {
    private struct Failed: Error, Equatable {
        let part: String
    }

    /// A service that listens, then fails or waits for a graceful shutdown.
    private struct Scripted: Service {
        var listen: @Sendable () -> Void = {}
        var failure: Failed?
        let ended = WatchedState(false)

        func run() async throws {
            listen()
            if let failure { throw failure }
            try? await gracefulShutdown()
            ended.withLock { $0 = true }
        }
    }

    private let scope = ServiceScope<Int>()
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func service(failing part: String? = nil) -> Scripted {
        Scripted(listen: { [scope] in scope.listen(on: 1) }, failure: part.map(Failed.init))
    }

    @Test func `a body receives the ports, and its value is returned after the shutdown`()
        async throws
    {
        let service = service()
        let value = try await scope.run(service, logger: logger) { port in "port \(port)" }
        #expect(value == "port 1")
        #expect(service.ended.value)
    }

    @Test func `a body that throws shuts the service down, and its error is thrown`()
        async throws
    {
        let service = service()
        await #expect(throws: Failed(part: "body")) {
            try await scope.run(service, logger: logger) { _ in throw Failed(part: "body") }
        }
        #expect(service.ended.value)
    }

    @Test func `a service that fails cancels the body, and its error is thrown`() async throws {
        let (service, clock) = (service(failing: "service"), ManualClock())
        await #expect(throws: Failed(part: "service")) {
            try await scope.run(service, logger: logger) { _ in
                try await clock.sleep(for: .seconds(1))
            }
        }
    }

    @Test func `a service that fails before it listens never runs the body`() async throws {
        var service = service(failing: "start")
        service.listen = {}
        let hasRun = WatchedState(false)
        await #expect(throws: Failed(part: "start")) {
            try await scope.run(service, logger: logger) { _ in hasRun.withLock { $0 = true } }
        }
        #expect(!hasRun.value)
    }

    @Test func `a server on free ports tells the body both addresses`() async throws {
        var settings = ServerSettings()
        settings.http.port = 0
        let server = try await SanguineServer(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            logger: logger
        )
        let addresses = try await server.serve { $0 }
        #expect(addresses.http.host() == "127.0.0.1" && addresses.admin.host() == "127.0.0.1")
        let ports = [addresses.http.port, addresses.admin.port].compactMap(\.self)
        #expect(Set(ports).count == 2 && !ports.contains(0))
    }
}
