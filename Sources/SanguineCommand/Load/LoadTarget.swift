import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import SanguineServer

/// The server that a run loads.
struct LoadTarget: Sendable {
    /// The URL without a path.
    let url: URL
    let host: String
    let port: Int
    let address: SocketAddress
    /// TLS for an https URL, otherwise `nil`.
    let tls: NIOSSLContext?

    /// Resolves the server's address.
    ///
    /// - Throws: ``Failure`` if the URL is invalid, the host is unknown, or it is another machine
    ///   and that is not allowed.
    init(_ text: String, allowsRemote: Bool) throws {
        guard let url = URL(string: text), let scheme = url.scheme,
            ["http", "https"].contains(scheme), let host = url.host(), !host.isEmpty,
            ["", "/"].contains(url.path()), url.query() == nil
        else {
            throw Failure("Set '--server' to a URL without a path, such as http://127.0.0.1:8080.")
        }
        self.url = url
        self.host = host.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        port = url.port ?? (scheme == "https" ? 443 : 80)
        do {
            address = try SocketAddress.makeAddressResolvingHost(self.host, port: port)
        } catch {
            throw Failure("The host '\(host)' is unknown. Check '--server'.")
        }
        guard allowsRemote || Self.isLoopback(address) else {
            throw Failure(
                """
                '\(host)' is another machine. Load only a server that you may load, and set \
                '--allow-remote'.
                """
            )
        }
        tls = scheme == "https" ? try NIOSSLContext(configuration: .makeClientConfiguration()) : nil
    }

    /// The value of the header `Host`.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return url.port.map { "\(name):\($0)" } ?? name
    }

    /// The addresses to connect from, or none for the system's choice.
    ///
    /// All addresses of 127.0.0.0/8 belong to a machine with Linux. With several, neither the ports
    /// run out nor the connections that a server accepts from one address.
    func localAddresses(for connections: Int) -> [SocketAddress] {
        #if os(Linux)
        guard case .v4 = address, Self.isLoopback(address) else { return [] }
        let count =
            (connections + LoadLimits.connectionsPerAddress - 1)
            / LoadLimits.connectionsPerAddress
        return (1...max(1, min(count, 250))).compactMap {
            try? SocketAddress(ipAddress: "127.0.0.\($0)", port: 0)
        }
        #else
        return []
        #endif
    }

    private static func isLoopback(_ address: SocketAddress) -> Bool {
        let text = address.ipAddress ?? ""
        return text == "::1" || text.hasPrefix("127.")
    }
}

/// The connections of a run and the file descriptors that they need.
struct LoadConnections: Sendable {
    /// The connections for requests.
    let requests: Int
    /// The live connections.
    let live: Int

    /// Plans the connections.
    ///
    /// - Parameters:
    ///   - wanted: The connections for requests, or `nil` for as many as there may be, up to
    ///     10,000.
    ///   - live: The live connections.
    ///   - descriptors: The files that the process may open.
    /// - Throws: ``Failure`` that says how to raise the limit, if it is too low.
    init(requests wanted: Int?, live: Int, descriptors: Int) throws(Failure) {
        let rest = descriptors - live - LoadLimits.otherDescriptors
        guard rest >= (wanted ?? 100) else {
            let needed = live + (wanted ?? 1_000) + LoadLimits.otherDescriptors
            throw Failure(
                """
                This process may open only \(descriptors) files, and the run needs \(needed) for \
                \(live) live connections and its requests. Run 'ulimit -n \(needed)' first; if \
                that is refused, raise the hard limit (nofile in /etc/security/limits.conf, or \
                LimitNOFILE of systemd), or lower '--users'.
                """
            )
        }
        requests = wanted ?? min(rest, 10_000)
        self.live = live
    }

    var all: Int { requests + live }
}
