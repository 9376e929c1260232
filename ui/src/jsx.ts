// What JSX becomes: a call that is shorter than the automatic form. Put into every file by build.mjs; the
// names are ones that no code uses for anything else.

export { h as jsxNode, Fragment as jsxFragment } from 'preact';
