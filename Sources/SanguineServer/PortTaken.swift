import Foundation
import NIOCore
import ServiceLifecycle

/// A port that the server should listen on is used by another program.
public struct PortTaken: Error, Hashable {
    /// The port.
    public var port: Int
    /// The flag that sets another port.
    public var flag: String
}

extension PortTaken: CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        "Port \(port) is in use. Choose another with \(flag), or stop the program that uses it."
    }
}

/// A service that listens on a port and throws ``PortTaken`` if it is in use.
struct Listener<Base: Service>: Service {
    let base: Base
    let port: Int
    let flag: String

    func run() async throws {
        do {
            try await base.run()
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw PortTaken(port: port, flag: flag)
        }
    }
}
