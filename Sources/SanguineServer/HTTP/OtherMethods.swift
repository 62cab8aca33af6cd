import HTTPTypes
import Hummingbird
import SanguineAuthority

extension Router<ServerContext> {
    /// Answers what is served, but not by that method, with 405 and `Allow` (RFC 9110, sections
    /// 10.2.1 and 15.5.6).
    ///
    /// For routes that were added before. HEAD is served wherever GET is.
    func refusingOtherMethods() -> Self {
        let served = Dictionary(grouping: routes) { $0.path.description }
        for routes in served.values {
            guard let path = routes.first?.path else { continue }
            var methods = Set(routes.map(\.method))
            if methods.contains(.get) { methods.insert(.head) }
            let allowed = methods.map(\.rawValue)
            for method in Self.refusable where !methods.contains(method) {
                on(path, method: method) { _, _ in Response(.refusal(allowing: allowed)) }
            }
        }
        return self
    }

    /// The methods of RFC 9110 and RFC 5789 that may come with a path.
    private static var refusable: [HTTPRequest.Method] {
        [.get, .head, .post, .put, .patch, .delete, .options, .trace]
    }
}
