/// A target that depends on an id that may be temporary: a query or a list.
@MainActor
final class FollowedID<Target> {
    private var id: String
    private let replaced: (String) -> String?
    private let make: (String) -> Target

    /// - Parameters:
    ///   - id: The initial id.
    ///   - replaced: Returns the real id of a temporary one, if it is known.
    ///   - make: Creates the target of an id.
    init(
        _ id: String,
        replaced: @escaping (String) -> String?,
        make: @escaping (String) -> Target
    ) {
        (self.id, self.replaced, self.make) = (id, replaced, make)
    }

    /// Returns the target of the real id, if the current id was replaced.
    func next() -> Target? {
        guard let real = replaced(id), real != id else { return nil }
        id = real
        return make(real)
    }
}

extension SanguineClient {
    /// Returns a query of an id as an observable object for a view, which follows the id.
    ///
    /// ```swift
    /// let track = client.model(of: id) { .track($0) }
    /// ```
    ///
    /// When the backend assigns a real id for a temporary one, see
    /// ``MutationContext/replaceID(_:by:)``, the model switches to the query of the real id. Until
    /// that query has a value, the former value stays.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - query: Creates the query of an id.
    /// - Returns: The model, which all views share.
    @MainActor
    public func model<Value>(
        of id: String,
        _ query: @escaping (String) -> ValueQuery<Value>
    ) -> ValueModel<Value> {
        let model = model(query(id))
        model.follow(FollowedID(id, replaced: replaced, make: query))
        return model
    }

    /// Returns a list that depends on an id as an observable object for a view, which follows the
    /// id.
    ///
    /// Like ``model(of:_:)``, for example for the comments on a post that the backend has not
    /// created yet.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - pages: Creates the list of an id.
    /// - Returns: The model, which all views share.
    @MainActor
    public func model<Item>(
        of id: String,
        _ pages: @escaping (String) -> ListQuery<Item>
    ) -> ListModel<Item> {
        let model = self.model(pages(id))
        let source = { [queries] (id: String) in queries.source(of: pages(id)) }
        model.follow(FollowedID(id, replaced: replaced, make: source))
        return model
    }

    private var replaced: (String) -> String? {
        { [weak users] id in users?.current.mutations.realID(of: id) }
    }
}
