import Foundation
package import SanguineModel

// `/v1/sync` and `/v1/collections`.
extension Endpoints {
    var records: [Endpoint] {
        [
            Endpoint("POST", "sync/push", push),
            Endpoint("GET", "sync/pull", pull),
            Endpoint("GET", "collections/:name/records", list),
            Endpoint("GET", "collections/:name/records/:id", record),
        ]
    }

    @Sendable
    private func push(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body, overLimit) = try await admission.push(request)
        let answer = try await authority.push(
            identity.account,
            body,
            overLimit: overLimit,
            judge: judge
        )
        if let onPush, case .success(let pushed) = body {
            onPush(identity.account, pushed, answer)
        }
        return .changed(answer, head: answer.head)
    }

    @Sendable
    private func pull(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let asked = try Self.pullRequest(request.query)
        let identity = try await admission.read(request)
        return .read(try await authority.pullJSON(identity.account, asked), to: request)
    }

    private static func pullRequest(
        _ query: WireQuery
    ) throws(Problem) -> Authority.PullRequest {
        var operations: [Identifier]?
        if let asked = try query.operations() {
            operations = []
            for text in asked {
                guard let id = Identifier(text) else {
                    throw Problem(.malformedRequest, "Set 'operations' to ids of operations.")
                }
                operations?.append(id)
            }
        }
        return Authority.PullRequest(
            since: try query.number("since") ?? 0,
            limit: try query.number("limit", from: 1).map { Int(clamping: $0) },
            horizon: try query.number("horizon"),
            epoch: try epoch(query),
            operations: operations,
            config: try query.number("config")
        )
    }

    private static func epoch(_ query: WireQuery) throws(Problem) -> Epoch? {
        guard let text = query["epoch"] else { return nil }
        guard let epoch = Epoch(text) else {
            throw Problem(.malformedRequest, "Set 'epoch' to the epoch of a pull, or leave it out.")
        }
        return epoch
    }

    /// Returns the position of a live connection's reader: a reconnecting reader's `Last-Event-ID`
    /// takes precedence over the query; without either, it is the beginning.
    ///
    /// - Throws: `malformed_request` for an invalid position.
    package static func livePosition(_ request: any WireRequest) throws(Problem) -> FeedMark {
        let resumed = request.field(.lastEventID).flatMap { $0.isEmpty ? nil : $0 }
        guard let text = resumed ?? request.query["since"] else { return FeedMark(number: 0) }
        guard let mark = FeedMark(text) else {
            throw Problem(
                .malformedRequest,
                "Set 'since' and 'Last-Event-ID' to the id of an event, or leave them out."
            )
        }
        return mark
    }

    /// Returns the revision of the switches that a live connection's reader has.
    ///
    /// - Throws: `malformed_request` for anything but a whole number.
    package static func liveConfig(_ request: any WireRequest) throws(Problem) -> Int64? {
        try request.query.number("config")
    }

    /// Returns the collections whose lists a live connection's reader shows.
    ///
    /// Names that are not declared are not refused, so that an app can be newer than its server.
    ///
    /// - Throws: `malformed_request` for too many, or for an invalid name.
    package static func liveLists(_ request: any WireRequest) throws(Problem) -> Set<String> {
        let names = request.query["lists"]?.split(separator: ",").map(String.init) ?? []
        let limit = WireLimits.followedLists
        guard names.count <= limit, names.allSatisfy({ RecordCollection.isValid(name: $0) }) else {
            throw Problem(
                .malformedRequest,
                "Set 'lists' to at most \(limit) names of collections, or leave it out."
            )
        }
        return Set(names)
    }

    @Sendable
    private func list(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let query = try WireListQuery(request.query)
        let asked = try Self.recordsRequest(request.query, query)
        let identity = try await admission.read(request)
        if let shared = try await authority.sharedRecords(
            in: request.parameter("name") ?? "",
            for: identity.account,
            asked,
            fields: query.fields
        ) {
            return .read(shared.body, tag: shared.tag, isPersonal: true, to: request)
        }
        let page = try await authority.records(
            in: request.parameter("name") ?? "",
            for: identity.account,
            asked
        )
        guard let fields = query.fields else { return .read(page, to: request) }
        let items = page.items.map { $0.keeping(fields) }
        return .read(
            ListPage(
                items: items,
                hasMore: page.hasMore,
                nextCursor: page.nextCursor,
                count: page.count
            ),
            to: request
        )
    }

    private static func recordsRequest(
        _ query: WireQuery,
        _ list: WireListQuery
    ) throws(Problem) -> Authority.RecordsRequest {
        let indexHint = "Find and order only by indexed members."
        var asked = Authority.RecordsRequest(limit: list.limit, cursor: list.cursor)
        var names: Set<String> = []
        for (name, text) in query.items {
            // Otherwise one of two conditions would have no effect.
            guard names.insert(name).inserted else {
                throw Problem(.malformedRequest, "Send each parameter of a list once.")
            }
            switch name {
            case _ where name.utf8.count > WireLimits.memberNameBytes:
                throw Problem(.malformedRequest, "Send parameters with shorter names.")
            case "order":
                guard text.isMemberName else { throw Problem(.malformedRequest, indexHint) }
                asked.order = text
            case "timeline": asked.timeline = text
            case "count":
                guard let counts = Bool(text) else {
                    throw Problem(.malformedRequest, "Set 'count' to true or false.")
                }
                asked.counts = counts
            case "ids":
                // Invalid ids match no records.
                asked.ids = text.utf8.split(separator: UInt8(ascii: ","))
                    .compactMap { RecordID(Substring($0)) }
            case _ where name.utf8.starts(with: "prefix.".utf8):
                asked.search[String(name.dropFirst(7))] = text
            default:
                guard name.utf8.starts(with: "where.".utf8) else { continue }
                guard name.isMemberName else { throw Problem(.malformedRequest, indexHint) }
                guard text.utf8.count <= WireLimits.conditionBytes else {
                    throw Problem(
                        .malformedRequest,
                        "Find by values of at most \(WireLimits.conditionBytes) bytes as JSON."
                    )
                }
                asked.conditions[String(name.dropFirst(6))] = value(text)
            }
        }
        guard asked.ids?.count ?? 0 <= WireLimits.largestPage else {
            throw Problem(.malformedRequest, "Send at most \(WireLimits.largestPage) 'ids'.")
        }
        return asked
    }

    /// Parses a JSON scalar; any other text is used as a string.
    private static func value(_ text: String) -> JSONValue {
        switch try? JSONParser.parse(Array(text.utf8)).value {
        case nil, .array, .object: return .string(text)
        case let value?: return value
        }
    }

    @Sendable
    private func record(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        guard let id = request.parameter("id").flatMap({ RecordID($0) }) else {
            throw Problem(.notFound, "Use the id of a record that this account may read.")
        }
        let name = request.parameter("name") ?? ""
        let record = try await authority.record(id, in: name, for: identity.account)
        guard let fields = WireListQuery.fields(request.query) else {
            return .read(record, to: request)
        }
        return .read(record.keeping(fields), to: request)
    }
}

extension RecordChange {
    /// Returns the requested members of the change and of its value.
    ///
    /// A name of a member of the change selects that member; other names, and those that follow
    /// `value.`, select members of the value. If no member of the change is named, all of them are
    /// returned.
    func keeping(_ fields: Set<String>) -> JSONValue {
        let named = fields.intersection(Self.memberNames)
        let prefix = "value."
        let inside = Set(
            fields.subtracting(Self.memberNames).map { name in
                name.utf8.starts(with: prefix.utf8)
                    ? String(Substring(name.utf8.dropFirst(prefix.utf8.count))) : name
            }
        )
        var members: [String: JSONValue] = [
            "collection": .string(collection), "id": .string(id.text), "seq": .integer(seq),
            "deleted": .bool(deleted), "value": value ?? .null,
        ]
        if !inside.isEmpty, !named.contains("value"), case .object(let values)? = value {
            members["value"] = .object(values.filter { inside.contains($0.key) })
        }
        guard !named.isEmpty else { return .object(members) }
        let kept = inside.isEmpty ? named : named.union(["value"])
        return .object(members.filter { kept.contains($0.key) })
    }
}
