/// What is made of an id that may be a temporary one: a query, or a list.
@MainActor
final class FollowedID<Target> {
    private var id: String
    private let replaced: (String) -> String?
    private let make: (String) -> Target

    /// - Parameters:
    ///   - id: The id that is known at first.
    ///   - replaced: Which id stands for one, if another does.
    ///   - make: Makes the target of an id.
    init(
        _ id: String,
        replaced: @escaping (String) -> String?,
        make: @escaping (String) -> Target
    ) {
        (self.id, self.replaced, self.make) = (id, replaced, make)
    }

    /// The target of another id, if that has come to stand for this one.
    func next() -> Target? {
        guard let real = replaced(id), real != id else { return nil }
        id = real
        return make(real)
    }
}

extension SanguineClient {
    /// A query of an id as an observable object for a view, which follows the id.
    ///
    /// ```swift
    /// let track = client.model(of: id) { .track($0) }
    /// ```
    ///
    /// When the backend has given another id to what had this temporary one, see
    /// ``MutationRequest/replaceID(_:by:)``, the model goes on with the query of the real id. Until
    /// that has a value, what was shown stays.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - query: Makes the query of an id.
    /// - Returns: The model, the same one for all views.
    @MainActor
    public func model<Value>(
        of id: String,
        _ query: @escaping (String) -> ValueQuery<Value>
    ) -> ValueModel<Value> {
        let model = model(query(id))
        model.follow(FollowedID(id, replaced: replaced, make: query))
        return model
    }

    /// A list that depends on an id as an observable object for a view, which follows the id.
    ///
    /// Like ``model(of:_:)``: the comments on a post that the backend has not made yet, say.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - pages: Makes the list of an id.
    /// - Returns: The model, the same one for all views.
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
        { [weak users] id in users?.present.mutations.realID(of: id) }
    }
}
