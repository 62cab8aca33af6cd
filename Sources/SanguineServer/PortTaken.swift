import Foundation
import NIOCore
import ServiceLifecycle

/// A port that the server was told to listen on, and that another program has.
public struct PortTaken: Error, Hashable {
    /// The port.
    public var port: Int
    /// The flag that chooses another one.
    public var flag: String
}

extension PortTaken: CustomStringConvertible {
    /// What happened, and what to do about it.
    public var description: String {
        "Port \(port) is taken: choose another with \(flag), or stop the program that has it."
    }
}

/// A service that listens, and says so in its own words when its port is taken.
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
