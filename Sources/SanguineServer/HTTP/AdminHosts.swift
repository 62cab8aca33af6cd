import HTTPTypes
import Hummingbird
import SanguineModel

/// Refuses requests to the admin port that were meant for another server or come from another
/// server's page.
///
/// A web page can call the admin port under its own name after pointing that name at loopback (DNS
/// rebinding); it can also call it across origins. The names in `Host` and `Origin` reveal both.
struct AdminHosts: RouterMiddleware {
    private let names: Set<String>

    init(_ settings: ServerSettings.HTTP) {
        names = Set((settings.adminHosts + [settings.adminHost, "localhost"]).map(Self.normal))
    }

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        guard isServed(request.head.authority) else {
            throw Problem(
                .foreignRequest,
                "Use a loopback address, or a name that 'http.adminHosts' lists."
            )
        }
        if let origin = request.headers[.origin], !isOwn(origin, of: request.head.authority) {
            throw Problem(.foreignRequest, "Call the admin port only from pages that it serves.")
        }
        return try await next(request, context)
    }

    /// Returns whether the name in `Host` is one of the server's; any port is permitted.
    func isServed(_ authority: String?) -> Bool {
        guard let authority, let name = Self.name(in: authority) else { return false }
        return names.contains(name) || IPAddress(name)?.isLoopback == true
    }

    /// Returns whether an origin is that of the server's own pages: its host and port match `Host`.
    private func isOwn(_ origin: String, of authority: String?) -> Bool {
        guard let authority else { return false }
        let host = authority.lowercased()
        return ["http://\(host)", "https://\(host)"].contains(origin.lowercased())
    }

    private static func name(in authority: String) -> String? {
        let name: Substring
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            name = authority[authority.index(after: authority.startIndex)..<end]
        } else {
            name = authority.prefix { $0 != ":" }
        }
        return name.isEmpty ? nil : normal(String(name))
    }

    private static func normal(_ name: String) -> String {
        let name = name.lowercased()
        return name.last == "." ? String(name.dropLast()) : name
    }

    /// Returns whether a setting may name the host: a name or address, without port and brackets.
    static func isName(_ text: String) -> Bool {
        guard (1...253).contains(text.utf8.count) else { return false }
        if IPAddress(text) != nil { return true }
        return text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                true
            default: false
            }
        }
    }
}
