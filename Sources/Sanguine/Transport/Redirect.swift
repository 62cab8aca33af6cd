import Foundation

extension TransportRequest {
    /// Returns the request that a redirect asks for; `nil` if the response is not one, or is not
    /// followed.
    ///
    /// A redirect is followed within the origin, and only if the request stays the same: 307 and
    /// 308 keep its method and body (RFC 9110, sections 15.4.8 and 15.4.9), and 301, 302 and 303
    /// are followed for reads. Following these for a `POST` would return the result of a different
    /// request as the response. All header fields are kept, including `Authorization`.
    func redirected(by response: TransportResponse) -> TransportRequest? {
        let keepsMethod =
            switch response.status {
            case 307, 308: true
            case 301, 302, 303: ["GET", "HEAD"].contains(method.uppercased())
            default: false
            }
        guard keepsMethod, let origin = url.origin, let target = response.header("location"),
            let next = URL(string: target, relativeTo: url)?.absoluteURL, next.origin == origin
        else { return nil }
        var request = self
        request.url = next
        return request
    }
}
