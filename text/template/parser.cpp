#include "text/template/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "text/template/lexer.h"

namespace tandem::chat {
namespace {

using Words = std::initializer_list<std::string_view>;

// Keeps the first error and then sees only the end of the template, so that every loop ends.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<SyntaxTree> run() {
    tree_.root = statements({});
    if (error_) return *std::move(error_);
    return std::move(tree_);
  }

 private:
  // Tokens.

  const Token& token(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  void skip(size_t count = 1) { at_ = std::min(at_ + count, tokens_.size() - 1); }
  bool is(TokenKind kind) const { return token().kind == kind; }
  bool is_symbol(std::string_view text, size_t ahead = 0) const {
    return token(ahead).kind == TokenKind::symbol && token(ahead).text == text;
  }
  bool is_word(std::string_view text, size_t ahead = 0) const {
    return token(ahead).kind == TokenKind::name && token(ahead).text == text;
  }
  bool is_one_of(Words words) const {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return is_word(word); });
  }
  bool take_symbol(std::string_view text) { return is_symbol(text) && (skip(), true); }
  bool take_word(std::string_view text) { return is_word(text) && (skip(), true); }

  static std::string described(const Token& token) {
    constexpr std::array<std::string_view, 11> kNames{
        "text",     "{{", "the end of the variable", "{%", "the end of the tag", "", "a string", "a number",
        "a number", "",   "the end of the template"};
    const std::string_view name = kNames[static_cast<size_t>(token.kind)];
    return name.empty() ? fmt::format("\"{}\"", token.text) : std::string(name);
  }

  void fail(Error error) {
    if (!error_) error_ = std::move(error);
    at_ = tokens_.size() - 1;
  }
  void fail_expected(std::string_view what) {
    fail(syntax_error(token().line, fmt::format("expected {}, found {}", what, described(token()))));
  }
  void expect(TokenKind kind, std::string_view what) { is(kind) ? skip() : fail_expected(what); }
  void expect_symbol(std::string_view text) {
    if (!take_symbol(text)) fail_expected(fmt::format("\"{}\"", text));
  }
  void expect_word(std::string_view text) {
    if (!take_word(text)) fail_expected(fmt::format("\"{}\"", text));
  }
  std::string expect_name() {
    std::string text = token().text;
    expect(TokenKind::name, "a name");
    return text;
  }

  // Nodes.

  static Node make(NodeKind kind, int line) {
    Node node;
    node.kind = kind;
    node.line = line;
    return node;
  }

  NodeId add(Node node) {
    const auto below = [&](NodeId id) {
      if (id != kNoNode) node.depth = std::max(node.depth, tree_[id].depth + 1);
    };
    for (NodeId id : {node.a, node.b, node.c, node.body, node.otherwise, node.star, node.double_star})
      below(id);
    for (NodeId id : node.items) below(id);
    for (NodeId id : node.others) below(id);
    for (const auto& [name, id] : node.named) below(id);
    if (node.depth > kMaxTreeDepth) fail(too_deep(node.line));
    tree_.nodes.push_back(std::move(node));
    return static_cast<NodeId>(tree_.nodes.size() - 1);
  }
  NodeId add(NodeKind kind, int line, NodeId a = kNoNode, NodeId b = kNoNode, NodeId c = kNoNode) {
    Node node = make(kind, line);
    node.a = a;
    node.b = b;
    node.c = c;
    return add(std::move(node));
  }

  static Error too_deep(int line) {
    return invalid("chat_c2", "nested deeper than {}", kMaxTreeDepth).at(fmt::format("line {}", line));
  }

  /// Counts how deep the parser itself is.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.level_ > kMaxTreeDepth) parser_.fail(too_deep(parser_.token().line));
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // Statements.

  /// Up to a block tag that begins with one of `ends`, whose word is the token then; or to the end.
  NodeId statements(Words ends) {
    Level level(*this);
    Node block = make(NodeKind::block, token().line);
    while (!is(TokenKind::end)) {
      const Token& first = token();
      const int line = first.line;
      if (first.kind == TokenKind::data) {
        Node data = make(NodeKind::data, line);
        data.text = first.text;
        skip();
        block.items.push_back(add(std::move(data)));
      } else if (first.kind == TokenKind::variable_begin) {
        skip();
        block.items.push_back(add(NodeKind::output, line, tuple_or_one()));
        expect(TokenKind::variable_end, "}}");
      } else {
        expect(TokenKind::block_begin, "a tag");
        if (is_one_of(ends)) return add(std::move(block));
        block.items.push_back(statement());
        expect(TokenKind::block_end, "%}");
      }
    }
    if (ends.size() > 0)
      fail(syntax_error(token().line,
                        fmt::format("the template ends where {} was expected", *(ends.end() - 1))));
    return add(std::move(block));
  }

  /// A tag's end and its body, up to one of `ends`.
  NodeId body(Words ends) {
    take_symbol(":");
    expect(TokenKind::block_end, "%}");
    return statements(ends);
  }
  NodeId body_to(std::string_view end) {
    const NodeId id = body({end});
    expect_word(end);
    return id;
  }

  struct StatementRow {
    std::string_view word;
    NodeId (Parser::*parse)();
  };

  NodeId statement() {
    static constexpr std::array<StatementRow, 10> kStatements{{
        {"if", &Parser::condition},
        {"for", &Parser::loop},
        {"set", &Parser::set},
        {"macro", &Parser::macro},
        {"call", &Parser::call_block},
        {"filter", &Parser::filter_block},
        {"with", &Parser::with},
        {"generation", &Parser::generation},
        {"break", &Parser::leave_loop},
        {"continue", &Parser::leave_loop},
    }};
    for (const StatementRow& row : kStatements)
      if (is_word(row.word)) return (this->*row.parse)();
    if (is_one_of({"include", "import", "from", "extends", "block", "autoescape", "do"})) {
      fail(unsupported("chat_c5", "the statement \"{}\" is not supported", token().text)
               .at(fmt::format("line {}", token().line)));
      return kNoNode;
    }
    if (is(TokenKind::name))
      fail(syntax_error(token().line,
                        fmt::format("\"{}\" is no statement, or stands in the wrong place", token().text)));
    else
      fail_expected("a statement");
    return kNoNode;
  }

  NodeId condition() {
    Node node = make(NodeKind::condition, token().line);
    while (true) {
      skip();  // if, elif
      node.items.push_back(tuple_or_one(false));
      node.items.push_back(body({"elif", "else", "endif"}));
      if (!is_word("elif")) break;
    }
    if (take_word("else")) node.b = body({"endif"});
    expect_word("endif");
    return add(std::move(node));
  }

  NodeId loop() {
    Node node = make(NodeKind::loop, token().line);
    skip();
    node.a = target(false);
    expect_word("in");
    node.b = tuple_or_one(false);
    if (take_word("if")) node.c = expression();
    if (is_word("recursive"))
      fail(unsupported("chat_c5", "recursive loops are not supported")
               .at(fmt::format("line {}", token().line)));
    const int loop_words = loop_words_;
    ++loops_;
    node.body = body({"else", "endfor"});
    --loops_;
    node.flag = loop_words_ > loop_words;
    if (take_word("else")) node.otherwise = body({"endfor"});
    expect_word("endfor");
    return add(std::move(node));
  }

  NodeId leave_loop() {
    const NodeKind kind = is_word("break") ? NodeKind::break_loop : NodeKind::continue_loop;
    if (loops_ == 0) fail(syntax_error(token().line, fmt::format("{} outside of a loop", token().text)));
    const int line = token().line;
    skip();
    return add(kind, line);
  }

  NodeId set() {
    const int line = token().line;
    skip();
    const NodeId to = target(true);
    if (take_symbol("=")) return add(NodeKind::assign, line, to, tuple_or_one());
    Node node = make(NodeKind::assign_block, line);
    node.a = to;
    if (is_symbol("|")) node.b = filters(kNoNode);
    node.body = body_to("endset");
    return add(std::move(node));
  }

  void parameters(Node& node) {
    expect_symbol("(");
    while (!is_symbol(")") && !error_) {
      if (!node.words.empty()) expect_symbol(",");
      node.words.push_back(expect_name());
      if (take_symbol("="))
        node.others.push_back(expression());
      else if (!node.others.empty())
        fail(syntax_error(token().line, "a parameter without a default after one with a default"));
    }
    expect_symbol(")");
  }

  /// The body of a macro, in which an outer loop cannot be left.
  void macro_body(Node& node, std::string_view end) {
    const int outer_loops = std::exchange(loops_, 0);
    const int64_t outer_names = std::exchange(macro_names_, 0);
    node.body = body_to(end);
    loops_ = outer_loops;
    node.integer = macro_names_;
    macro_names_ |= outer_names;
  }

  NodeId macro() {
    Node node = make(NodeKind::macro, token().line);
    skip();
    node.text = expect_name();
    parameters(node);
    macro_body(node, "endmacro");
    return add(std::move(node));
  }

  NodeId call_block() {
    Node caller = make(NodeKind::macro, token().line);
    skip();
    caller.text = "caller";
    if (is_symbol("(")) parameters(caller);
    const int line = token().line;
    const NodeId called = expression();
    if (called != kNoNode && tree_[called].kind != NodeKind::call)
      fail(syntax_error(line, "expected a call"));
    macro_body(caller, "endcall");
    return add(NodeKind::call_block, line, called, add(std::move(caller)));
  }

  NodeId filter_block() {
    Node node = make(NodeKind::filter_block, token().line);
    skip();
    node.a = one_filter(kNoNode);
    if (is_symbol("|")) node.a = filters(node.a);
    node.body = body_to("endfilter");
    return add(std::move(node));
  }

  NodeId with() {
    Node node = make(NodeKind::with, token().line);
    skip();
    while (!is(TokenKind::block_end) && !error_) {
      if (!node.items.empty()) expect_symbol(",");
      node.items.push_back(target(false));
      expect_symbol("=");
      node.others.push_back(expression());
    }
    node.body = body_to("endwith");
    return add(std::move(node));
  }

  NodeId generation() {
    Node node = make(NodeKind::scope, token().line);
    skip();
    macro_body(node, "endgeneration");
    return add(std::move(node));
  }

  // What is assigned to.

  NodeId target(bool with_namespace) {
    const int line = token().line;
    const NodeId first = one_target(with_namespace);
    if (!is_symbol(",")) return first;
    Node node = make(NodeKind::tuple, line);
    node.items.push_back(first);
    while (take_symbol(",") && !is_word("in") && !is_symbol("=") && !is(TokenKind::block_end))
      node.items.push_back(one_target(with_namespace));
    return add(std::move(node));
  }

  NodeId one_target(bool with_namespace) {
    Level level(*this);
    if (take_symbol("(")) {
      const NodeId inner = target(with_namespace);
      expect_symbol(")");
      return inner;
    }
    Node node = make(NodeKind::name, token().line);
    node.text = expect_name();
    constexpr std::array<std::string_view, 6> kConstants{"true", "false", "none", "True", "False", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), node.text) != kConstants.end())
      fail(syntax_error(node.line, fmt::format("cannot assign to {}", node.text)));
    if (with_namespace && take_symbol(".")) {
      node.kind = NodeKind::namespace_target;
      node.more = expect_name();
    }
    return add(std::move(node));
  }

  // Expressions, from the loosest binding to the tightest.

  /// One expression, or a tuple where commas follow.
  NodeId tuple_or_one(bool with_choice = true, bool may_be_empty = false) {
    Node node = make(NodeKind::tuple, token().line);
    bool has_comma = false;
    while (!is_symbol(")") && !is(TokenKind::variable_end) && !is(TokenKind::block_end) && !error_) {
      node.items.push_back(with_choice ? expression() : disjunction());
      if (!take_symbol(",")) break;
      has_comma = true;
    }
    if (!has_comma && !node.items.empty()) return node.items[0];
    if (node.items.empty() && !may_be_empty) fail_expected("an expression");
    return add(std::move(node));
  }

  NodeId expression() {
    Level level(*this);
    NodeId value = disjunction();
    while (is_word("if") && !error_) {
      const int line = token().line;
      skip();
      const NodeId test = disjunction();
      const NodeId otherwise = take_word("else") ? expression() : kNoNode;
      value = add(NodeKind::choice, line, value, test, otherwise);
    }
    return value;
  }

  NodeId disjunction() {
    NodeId left = conjunction();
    while (is_word("or")) {
      const int line = token().line;
      skip();
      left = add(NodeKind::either, line, left, conjunction());
    }
    return left;
  }

  NodeId conjunction() {
    NodeId left = negation();
    while (is_word("and")) {
      const int line = token().line;
      skip();
      left = add(NodeKind::both, line, left, negation());
    }
    return left;
  }

  NodeId negation() {
    if (!is_word("not")) return comparison();
    Level level(*this);
    const int line = token().line;
    skip();
    return add(NodeKind::negation, line, negation());
  }

  NodeId comparison() {
    constexpr std::array<std::string_view, 6> kOperators{"==", "!=", "<", "<=", ">", ">="};
    Node node = make(NodeKind::compare, token().line);
    node.a = sum();
    while (!error_) {
      const auto symbol =
          std::find_if(kOperators.begin(), kOperators.end(), [&](auto text) { return is_symbol(text); });
      if (symbol != kOperators.end())
        node.words.emplace_back(*symbol);
      else if (is_word("in"))
        node.words.emplace_back("in");
      else if (is_word("not") && is_word("in", 1))
        node.words.emplace_back("not in");
      else
        break;
      skip(node.words.back() == "not in" ? 2 : 1);
      node.items.push_back(sum());
    }
    return node.items.empty() ? node.a : add(std::move(node));
  }

  template <size_t N>
  NodeId left_to_right(const std::array<std::string_view, N>& operators, NodeId (Parser::*tighter)()) {
    NodeId left = (this->*tighter)();
    while (is(TokenKind::symbol) &&
           std::find(operators.begin(), operators.end(), token().text) != operators.end()) {
      Node node = make(NodeKind::binary, token().line);
      node.text = token().text;
      skip();
      node.a = left;
      node.b = (this->*tighter)();
      left = add(std::move(node));
    }
    return left;
  }

  NodeId sum() {
    constexpr std::array<std::string_view, 2> kOperators{"+", "-"};
    return left_to_right(kOperators, &Parser::concatenation);
  }

  NodeId concatenation() {
    Node node = make(NodeKind::concat, token().line);
    node.items.push_back(product());
    while (take_symbol("~")) node.items.push_back(product());
    return node.items.size() == 1 ? node.items[0] : add(std::move(node));
  }

  NodeId product() {
    constexpr std::array<std::string_view, 4> kOperators{"*", "/", "//", "%"};
    return left_to_right(kOperators, &Parser::power);
  }

  NodeId power() {
    constexpr std::array<std::string_view, 1> kOperators{"**"};
    return left_to_right(kOperators, &Parser::unary);
  }

  NodeId unary() { return filters_and_tests(signed_value()); }

  NodeId signed_value() {
    Level level(*this);
    const int line = token().line;
    if (take_symbol("-")) return postfix(add(NodeKind::minus, line, signed_value()));
    if (take_symbol("+")) return postfix(add(NodeKind::plus, line, signed_value()));
    return postfix(primary());
  }

  NodeId primary() {
    const Token& first = token();
    Node node = make(NodeKind::name, first.line);
    if (first.kind == TokenKind::name) return name();
    if (first.kind == TokenKind::string) return strings();
    if (first.kind == TokenKind::integer || first.kind == TokenKind::real) {
      node.kind = first.kind == TokenKind::integer ? NodeKind::constant_integer : NodeKind::constant_real;
      node.integer = first.integer;
      node.real = first.real;
      skip();
      return add(std::move(node));
    }
    if (take_symbol("(")) {
      const NodeId inner = tuple_or_one(true, true);
      expect_symbol(")");
      return inner;
    }
    if (is_symbol("[")) return list();
    if (is_symbol("{")) return dict();
    fail_expected("an expression");
    return kNoNode;
  }

  NodeId name() {
    Node node = make(NodeKind::name, token().line);
    node.text = token().text;
    skip();
    if (node.text == "true" || node.text == "True" || node.text == "false" || node.text == "False") {
      node.kind = NodeKind::constant_bool;
      node.integer = node.text[0] == 't' || node.text[0] == 'T';
    } else if (node.text == "none" || node.text == "None") {
      node.kind = NodeKind::constant_none;
    }
    if (node.text == "loop") ++loop_words_;
    if (node.text == "varargs") macro_names_ |= kVarargs;
    if (node.text == "kwargs") macro_names_ |= kKwargs;
    if (node.text == "caller") macro_names_ |= kCaller;
    return add(std::move(node));
  }

  NodeId strings() {
    Node node = make(NodeKind::constant_string, token().line);
    for (; is(TokenKind::string); skip()) node.text += token().text;
    return add(std::move(node));
  }

  NodeId list() {
    Node node = make(NodeKind::list, token().line);
    skip();
    while (!is_symbol("]") && !error_) {
      node.items.push_back(expression());
      if (!take_symbol(",")) break;
    }
    expect_symbol("]");
    return add(std::move(node));
  }

  NodeId dict() {
    Node node = make(NodeKind::dict, token().line);
    skip();
    while (!is_symbol("}") && !error_) {
      node.items.push_back(expression());
      expect_symbol(":");
      node.others.push_back(expression());
      if (!take_symbol(",")) break;
    }
    expect_symbol("}");
    return add(std::move(node));
  }

  NodeId postfix(NodeId value) {
    while (!error_) {
      const int line = token().line;
      if (take_symbol("."))
        value = attribute(value, line);
      else if (take_symbol("["))
        value = subscript(value, line);
      else if (is_symbol("("))
        value = call(value);
      else
        break;
    }
    return value;
  }

  NodeId attribute(NodeId value, int line) {
    Node node = make(NodeKind::attribute, line);
    node.a = value;
    if (is(TokenKind::integer)) {
      node.kind = NodeKind::item;
      node.b = primary();
      return add(std::move(node));
    }
    node.text = expect_name();
    return add(std::move(node));
  }

  NodeId subscript(NodeId value, int line) {
    Node all = make(NodeKind::tuple, line);
    while (!is_symbol("]") && !error_) {
      if (!all.items.empty()) expect_symbol(",");
      all.items.push_back(index());
    }
    expect_symbol("]");
    const NodeId index = all.items.size() == 1 ? all.items[0] : add(std::move(all));
    return add(NodeKind::item, line, value, index);
  }

  NodeId index() {
    const int line = token().line;
    const auto ends = [&] { return is_symbol("]") || is_symbol(",") || is_symbol(":"); };
    const NodeId from = is_symbol(":") ? kNoNode : expression();
    if (!take_symbol(":")) return from;
    const NodeId to = ends() ? kNoNode : expression();
    const NodeId step = take_symbol(":") && !ends() ? expression() : kNoNode;
    return add(NodeKind::slice, line, from, to, step);
  }

  void arguments(Node& node) {
    const int line = token().line;
    expect_symbol("(");
    const auto ensure = [&](bool holds) {
      if (!holds) fail(syntax_error(line, "arguments in an order that cannot be"));
    };
    bool first = true;
    while (!is_symbol(")") && !error_) {
      if (!first) expect_symbol(",");
      first = false;
      if (is_symbol(")")) break;
      if (take_symbol("**")) {
        ensure(node.double_star == kNoNode);
        node.double_star = expression();
      } else if (take_symbol("*")) {
        ensure(node.star == kNoNode && node.double_star == kNoNode);
        node.star = expression();
      } else if (is(TokenKind::name) && is_symbol("=", 1)) {
        ensure(node.double_star == kNoNode);
        std::string key = token().text;
        skip(2);
        node.named.emplace_back(std::move(key), expression());
      } else {
        ensure(node.star == kNoNode && node.double_star == kNoNode && node.named.empty());
        node.items.push_back(expression());
      }
    }
    expect_symbol(")");
  }

  NodeId call(NodeId callee) {
    Node node = make(NodeKind::call, token().line);
    node.a = callee;
    arguments(node);
    return add(std::move(node));
  }

  NodeId filters_and_tests(NodeId value) {
    while (!error_) {
      if (is_symbol("|"))
        value = filters(value);
      else if (is_word("is"))
        value = test(value);
      else if (is_symbol("("))
        value = call(value);
      else
        break;
    }
    return value;
  }

  std::string dotted_name() {
    std::string name = expect_name();
    while (take_symbol(".")) name += "." + expect_name();
    return name;
  }

  NodeId filters(NodeId value) {
    while (take_symbol("|")) value = one_filter(value);
    return value;
  }

  NodeId one_filter(NodeId value) {
    Node node = make(NodeKind::filter, token().line);
    node.text = dotted_name();
    node.a = value;
    if (is_symbol("(")) arguments(node);
    return add(std::move(node));
  }

  NodeId test(NodeId value) {
    Node node = make(NodeKind::test, token().line);
    skip();
    const bool negated = take_word("not");
    node.text = dotted_name();
    node.a = value;
    const bool may_begin = is(TokenKind::name) || is(TokenKind::string) || is(TokenKind::integer) ||
                           is(TokenKind::real) || is_symbol("[") || is_symbol("{");
    if (is_symbol("(")) {
      arguments(node);
    } else if (may_begin && !is_one_of({"else", "or", "and"})) {
      if (is_word("is")) fail(syntax_error(token().line, "tests cannot be chained with is"));
      node.items.push_back(postfix(primary()));
    }
    const int line = node.line;
    const NodeId id = add(std::move(node));
    return negated ? add(NodeKind::negation, line, id) : id;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  SyntaxTree tree_;
  std::optional<Error> error_;
  int level_ = 0;
  int loops_ = 0;            // around the statement, within its macro
  int loop_words_ = 0;       // how often `loop` was named
  int64_t macro_names_ = 0;  // special names within the macro
};

}  // namespace

Result<SyntaxTree> parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    return invalid("chat_c2", "a template of {} bytes, the limit is {}", source.size(), kMaxTemplateBytes);
  TANDEM_TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace tandem::chat
